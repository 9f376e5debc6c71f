// Which region a request enters: asks the director (by a subrequest that NGINX caches), picks from the answered shares,
// and hands the request over to `@region`. njs 0.7 has neither a shared dictionary nor timers: what is shared between
// requests is NGINX's own cache, and outcomes leave by the access log.
import crypto from 'crypto';

const BODY_BYTES_PARSED_MAX = 1048576;   // beyond it the model is looked for, not parsed: a second of CPU is worse
const TRIES_MAX = 3;
const REFUSED_MIN = 1e-4;                // shares are rounded to six digits; less than this is rounding
const REFUSALS = {
    400: {status: 400, title: 'malformed', detail: 'the request names something that does not exist'},
    401: {status: 401, title: 'unauthorized', detail: 'this proxy is not known to the director'},
    403: {status: 403, title: 'forbidden', detail: 'this caller may not enter any region'},
    404: {status: 404, title: 'model_unknown', detail: 'no region ever served this model'},
    503: {status: 503, title: 'no_region', detail: 'no region is left that may take this request'}
};
const PLAIN = /^[A-Za-z0-9_.:@+\/-]{1,128}$/;

// `memory` (optional) keeps answers between requests where NGINX's cache does not: {kept(r, route, stale), keep(r, route, answer)}.
async function enter(r, memory) {
    const v = r.variables;
    if (!v.director_tenant) {
        problem(r, 401, 'unauthorized', 'show a key that is known here');
        return;
    }
    const asked = body_of(r);
    v.director_model = asked.model || v.director_model_named || v.director_model_default;
    await go(r, {
        key: asked.session || v.director_session,
        affinity: v.director_affinity,
        tried: []
    }, memory);
}

// A region failed before it answered. Only then: a region that took a request and is silent for minutes is not asked twice.
async function retry(r, memory) {
    const v = r.variables;
    const tried = v.director_tried.split(';');
    if (/(^|[ ,:])504$/.test(v.upstream_status) && !/-$/.test(v.upstream_connect_time)) {
        problem(r, 504, 'timeout', 'the region did not answer in time');
        return;
    }
    if (tried.length >= TRIES_MAX) {
        unreachable(r);
        return;
    }
    if (v.director_reason === 'fallback') {
        // The director was silent a moment ago: to wait for it once more would cost the client a second.
        silent(r, tried);
        return;
    }
    await go(r, {key: v.director_session, affinity: v.director_affinity, tried: tried}, memory);
}

async function go(r, asked, memory) {
    const route = query(r.variables, asked);
    const known = memory ? memory.kept(r, route, false) : null;
    if (known) {
        await follow(r, known, asked, route, memory);
        return;
    }
    const reply = await r.subrequest('/_director', {args: route});
    if (reply.status === 200) {
        const answer = JSON.parse(reply.responseText);
        if (memory) {
            memory.keep(r, route, answer);
        }
        // While the director is silent, to ask it for a token would cost the client a quarter of a second.
        await follow(r, answer, asked, reply.variables.upstream_cache_status === 'STALE' ? null : route, memory);
        return;
    }
    if (reply.status === 502 || reply.status === 504 || reply.status === 500 || reply.status === 0) {
        const last = memory ? memory.kept(r, route, true) : null;
        if (last) {
            await follow(r, last, asked, null, memory);
        } else {
            silent(r, asked.tried);
        }
        return;
    }
    // Which regions there are, and why each was dropped, is not the client's to read: `director explain` tells operators.
    const words = REFUSALS[reply.status] || REFUSALS[403];
    problem(r, words.status, words.title, words.detail, reply.headersOut['Retry-After']);
}

// `route`: what was asked, or null while nobody can be.
async function follow(r, answer, asked, route, memory) {
    const place = pick(answer, asked);
    if (place === null) {
        problem(r, 503, 'no_region', 'every permitted region is full', '2');
        return;
    }
    if (place.reason === 'share' && route !== null) {
        place.token = await token_of(r, answer, place.region, route, memory);
    }
    enter_region(r, place, asked.tried);
}

// The answered token is for the answered region. A session that the shares sent elsewhere gets its own: what the director
// answers with all other regions excluded, once in two seconds for each region of a route. This is no request more: it
// counts with one token, the least there is, for the director plans in tokens.
async function token_of(r, answer, region, route, memory) {
    const others = Object.keys(answer.shares).concat([answer.region], answer.fallbacks.map(one => one.region))
        .filter((name, at, all) => name !== region && all.indexOf(name) === at);
    const args = route + '&exclude=' + encodeURIComponent(others.sort().join(',')) + '&estimated_tokens=1';
    let told = memory ? memory.kept(r, args, false) : null;
    if (!told) {
        const reply = await r.subrequest('/_director', {args: args});
        if (reply.status !== 200) {
            return '';
        }
        told = JSON.parse(reply.responseText);
        if (memory) {
            memory.keep(r, args, told);
        }
    }
    return told.region === region ? told.affinity.token : '';
}

// The same for every request of a route, so that one answer serves all of them; a session with a token asks for its token.
function query(v, asked) {
    const fields = [
        ['tenant', v.director_tenant], ['model', v.director_model], ['residency', v.director_residency],
        ['client_zone', v.director_client_zone], ['client_ip', v.director_client_ip],
        ['exclude', asked.tried.join(',')]
    ];
    if (asked.affinity) {
        fields.push(['affinity', asked.affinity], ['session', asked.affinity]);
    }
    return fields.filter(f => f[1]).map(f => f[0] + '=' + encodeURIComponent(f[1])).join('&');
}

// One region of the answered shares, by the session's hash: weighted rendezvous, so that when shares change by x about
// x of the sessions move. null: the hash falls on the part that is refused.
function pick(answer, asked) {
    const own = {
        region: answer.region, endpoint: answer.endpoint, version: answer.version, reason: answer.reason,
        token: answer.affinity.token, fallbacks: answer.fallbacks
    };
    const names = Object.keys(answer.shares).filter(name => asked.tried.indexOf(name) < 0);
    let left = 1;
    names.forEach(name => { left -= answer.shares[name]; });
    if (answer.reason === 'affinity' || names.length === 0 || asked.tried.length) {
        return own;
    }
    const refused = left > REFUSED_MIN ? left : 0;
    if (names.length === 1 && !refused && names[0] === own.region) {
        return own;
    }
    const chosen = rendezvous(asked.key, names.map(name => [name, answer.shares[name]]).concat([['', refused]]));
    if (chosen === own.region) {
        return own;
    }
    if (chosen === '') {
        return null;
    }
    const other = answer.fallbacks.filter(one => one.region === chosen)[0];
    if (!other) {
        return own;
    }
    // Of one version as a rule; where a region serves another one, outcomes name the answered version.
    return {
        region: chosen, endpoint: other.endpoint, version: answer.version, reason: 'share', token: '',
        fallbacks: [{region: own.region, endpoint: own.endpoint}].concat(answer.fallbacks)
    };
}

function rendezvous(key, shares) {
    let best = '', best_score = Infinity;
    shares.forEach(one => {
        if (one[1] > 0) {
            const hex = crypto.createHash('md5').update(key + '\x1f' + one[0]).digest('hex');
            // 48 bits, strictly inside (0, 1).
            const score = -Math.log((parseInt(hex.slice(0, 12), 16) + 0.5) / 281474976710656) / one[1];
            if (score < best_score) {
                best_score = score;
                best = one[0];
            }
        }
    });
    return best;
}

// Nobody to ask: what the answer that led to the region tried before named next, else what was written for this day.
function silent(r, tried) {
    const v = r.variables;
    const listed = (v.director_fallbacks ? v.director_fallbacks.split(',') : [])
        .concat([v.director_fallback_1, v.director_fallback_2]);
    for (let i = 0; i < listed.length; i++) {
        const at = listed[i] ? listed[i].indexOf('=') : -1;
        if (at > 0 && tried.indexOf(listed[i].slice(0, at)) < 0) {
            enter_region(r, {
                region: listed[i].slice(0, at), endpoint: listed[i].slice(at + 1), version: '-', reason: 'fallback',
                token: '', fallbacks: []
            }, tried);
            return;
        }
    }
    unreachable(r);
}

function enter_region(r, place, tried) {
    const v = r.variables;
    v.director_region = place.region;
    v.director_endpoint = place.endpoint;
    v.director_version = place.version;
    v.director_reason = place.reason;
    v.director_token_answered = place.token;
    if (place.fallbacks.length) {
        v.director_fallbacks = place.fallbacks.map(one => one.region + '=' + one.endpoint).join(',');
    }
    v.director_tried = tried.concat([place.region]).join(';');
    v.director_versions = (tried.length ? v.director_versions + ';' : '') + place.version;
    r.internalRedirect('@region');
}

// The model, and the session where the body names one (`prompt_cache_key` says just that).
function body_of(r) {
    let text;
    try {
        text = r.requestText;
    } catch (e) {
        return {};
    }
    if (!text) {
        return {};
    }
    if (text.length > BODY_BYTES_PARSED_MAX) {
        // Quotes inside strings are escaped, so this finds keys only.
        const found = /[{,]\s*"model"\s*:\s*"([^"\\]{1,128})"/.exec(text);
        return {model: found && PLAIN.test(found[1]) ? found[1] : undefined};
    }
    try {
        const told = JSON.parse(text);
        const session = told.prompt_cache_key;
        return {
            model: typeof told.model === 'string' && PLAIN.test(told.model) ? told.model : undefined,
            session: typeof session === 'string' && session.length && session.length <= 256 ? session : undefined
        };
    } catch (e) {
        return {};
    }
}

function unreachable(r) {
    problem(r, 503, 'unreachable', 'no permitted region could be reached', '2');
}

function problem(r, status, title, detail, retry_after) {
    r.headersOut['Content-Type'] = 'application/problem+json';
    if (retry_after) {
        r.headersOut['Retry-After'] = retry_after;
    }
    if (status === 401) {
        r.headersOut['WWW-Authenticate'] = 'Bearer';
    }
    r.return(status, JSON.stringify({status: status, title: title, detail: detail}) + '\n');
}

export default {enter, retry};
