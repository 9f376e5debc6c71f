// director.js with the cluster's memory: what the director said of a route is kept in a keyval zone ($director_kept).
import director from 'director.js';

const REUSE_S = 2;

// The last answer of a route, while it is fresh; `stale` also when it is not, for the day the director is silent.
function kept(r, route, stale) {
    r.variables.director_route = route;
    const text = r.variables.director_kept;
    if (!text) {
        return null;
    }
    const one = JSON.parse(text);
    return stale || one.until_s > Date.now() / 1000 ? one.answer : null;
}

function keep(r, route, answer) {
    r.variables.director_route = route;
    r.variables.director_kept = JSON.stringify({until_s: Date.now() / 1000 + REUSE_S, answer: answer});
}

const memory = {kept: kept, keep: keep};

export default {enter: r => director.enter(r, memory), retry: r => director.retry(r, memory)};
