// A decision computed inside NGINX: the body parsed, one region picked by weighted rendezvous over four shares, and an
// answer as large as the director's. No token is checked, no field validated, no route found, no affinity token signed,
// nothing counted: less work than the director's, in its peer's favour.
import crypto from 'crypto';

const SHARES = {'region-1': 0.64, 'region-3': 0.16, 'region-5': 0.16, 'region-7': 0.04};
const NAMES = Object.keys(SHARES);
const PLACES = NAMES.concat(['region-9', 'region-11']).map(
    name => ({region: name, endpoint: 'https://' + name + '.infer.example.net'})
);
const AFFINITY = {token: '1.k1.region-5.tpcmno.aMmrwiChWnIR.2LnRnpmKAMKmG1QArP2x7A', expires_in_s: 600};
const PLAN = {epoch: 1841, age_ms: 640, static: false, policy: 17};
let sequence = 0;

function answer(r) {
    const asked = JSON.parse(r.requestText);
    let best = 0, best_score = Infinity;
    for (let i = 0; i < NAMES.length; i++) {
        // MD5 by the module written in C: a hash in the interpreter (FNV-1a, tried) costs half as much again.
        const hex = crypto.createHash('md5').update(asked.session + '\x1f' + NAMES[i]).digest('hex');
        const score = -Math.log((parseInt(hex.slice(0, 12), 16) + 0.5) / 281474976710656) / SHARES[NAMES[i]];
        if (score < best_score) {
            best_score = score;
            best = i;
        }
    }
    sequence++;
    r.return(200, JSON.stringify({
        decision_id: '627702aafb98c8b2' + sequence, region: PLACES[best].region, endpoint: PLACES[best].endpoint,
        model: asked.model, version: '2026-08-14', reason: 'home', fallbacks: PLACES.filter((_, i) => i !== best),
        affinity: AFFINITY, shares: SHARES, reuse_s: 2, plan: PLAN
    }));
}

export default {answer};
