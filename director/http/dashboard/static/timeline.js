"use strict";
// Two charts over one time: shares and utilisation, events as lines on them. A click chooses a moment.
(function () {
  const plots = document.getElementById("plots");
  const hint = document.getElementById("plots-hint");
  if (!plots) return;
  // Okabe and Ito's colours, with dashes: eight lines that the colour-blind can tell apart too.
  const light = ["#0072b2", "#d55e00", "#009e73", "#b0418a", "#8a6d00", "#3b3b9c", "#5a5a5a", "#38a0d8"];
  const dark = ["#56b4e9", "#ff9a57", "#35d0a0", "#e08cc0", "#f0e442", "#a9a9ff", "#c0c0c0", "#7fd3ff"];
  const dashes = [[], [], [], [], [7, 4], [7, 4], [2, 3], [2, 3]];
  const charts = [];
  let told = null;

  function isDark() {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function color(name) {
    const probe = document.createElement("i");
    probe.className = name;
    plots.appendChild(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  function rfc(at_s) { return new Date(Math.round(at_s) * 1000).toISOString().slice(0, 19) + "Z"; }
  function percent(value) { return value == null ? "–" : (value * 100).toFixed(value < 0.1 ? 1 : 0) + " %"; }
  function nearest(at_s, within_s) {
    let best = null;
    for (const one of told.events) {
      const gap = Math.abs(one.at_s - at_s);
      if (gap <= within_s && (best === null || gap < Math.abs(best.at_s - at_s))) best = one;
    }
    return best;
  }
  function marks(u) {
    const ctx = u.ctx, box = u.bbox;
    function line(at_s, stroke, dash, width, part) {
      const x = Math.round(u.valToPos(at_s, "x", true));
      if (x < box.left || x > box.left + box.width) return;
      ctx.strokeStyle = stroke; ctx.lineWidth = width; ctx.setLineDash(dash);
      ctx.beginPath(); ctx.moveTo(x, box.top); ctx.lineTo(x, box.top + box.height * part); ctx.stroke();
    }
    ctx.save();
    const dim = color("dim");
    // A busy hour's events would hide the curves: then they are ticks at the top.
    const few = told.events.length <= 40;
    ctx.globalAlpha = few ? 0.5 : 0.7;
    for (const one of told.events) line(one.at_s, dim, few ? [3, 3] : [], 1, few ? 1 : 0.06);
    ctx.globalAlpha = 1;
    for (const name of ["at", "against"]) {
      const at = plots.dataset[name];
      if (at) line(Date.parse(at) / 1000, color("bad"), [], 2, 1);
    }
    ctx.restore();
  }
  function say(u) {
    if (u.cursor.idx == null) return;
    const at_s = u.posToVal(u.cursor.left, "x");
    const event = nearest(at_s, (u.scales.x.max - u.scales.x.min) / 150);
    hint.textContent = rfc(at_s).slice(11, 19) + " UTC" + (event ? " · " + event.text : "")
      + " · click: the plan of this moment" + (plots.dataset.second ? "; with shift: beside the chosen one" : "");
  }
  function choose(u, event) {
    const template = event.shiftKey && plots.dataset.second ? plots.dataset.second : plots.dataset.moment;
    location.href = template.replace("AT", encodeURIComponent(rfc(u.posToVal(u.cursor.left, "x"))));
  }
  // Hours and minutes, and the day where it changes: never "pm".
  function clock(u, splits, axis, space, step_s) {
    let day = "";
    return splits.map(function (at_s) {
      const text = rfc(at_s), today = text.slice(0, 10), first = today !== day;
      day = today;
      return text.slice(11, step_s < 60 ? 19 : 16) + (first ? "\n" + today.slice(5) : "");
    });
  }
  function draw(id, values, top) {
    const here = document.getElementById(id);
    here.replaceChildren();
    const palette = isDark() ? dark : light;
    const axis = color("dim"), grid = { stroke: isDark() ? "#303945" : "#e3e7ec", width: 1 };
    const series = told.regions.map(function (name, i) {
      return { label: name, stroke: palette[i % 8], dash: dashes[i % 8], width: 1.8, points: { show: false },
        value: function (u, value) { return percent(value); } };
    });
    const chart = new uPlot({
      width: here.clientWidth || 800, height: 230, tzDate: function (ts) { return uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"); },
      cursor: { sync: { key: "timeline" }, drag: { x: false, y: false } },
      legend: { live: true },
      scales: { y: { range: function (u, min, max) { return [0, Math.max(top, (max || 0) * 1.08)]; } } },
      series: [{ label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }].concat(series),
      axes: [{ stroke: axis, grid: grid, ticks: grid, space: 70, values: clock },
        { stroke: axis, grid: grid, ticks: grid, size: 56, values: function (u, all) { return all.map(percent); } }],
      hooks: { drawClear: [marks], setCursor: [say],
        ready: [function (u) { u.over.addEventListener("click", function (event) { choose(u, event); }); }] },
    }, [told.times_s].concat(values), here);
    charts.push(chart);
  }
  function drawAll() {
    while (charts.length) charts.pop().destroy();
    draw("shares", told.shares, 0.2);
    draw("utilisations", told.utilisations, 1);
    plots.dataset.drawn = "yes";
  }
  function read() {
    return fetch(plots.dataset.source, { headers: { Accept: "application/json" }, credentials: "same-origin" })
      .then(function (reply) { if (!reply.ok) throw new Error(reply.status); return reply.json(); })
      .then(function (found) {
        told = found;
        drawAll();
        const known = told.shares.some(function (row) { return row.some(function (one) { return one != null; }); });
        hint.textContent = known ? "Dashed lines and ticks are events. Point at one to read it; click for the plan of that moment."
          : "No report is kept for this span.";
      })
      .catch(function () { hint.textContent = "The curves cannot be read: the director or its database does not answer. Trying again."; });
  }
  read();
  // Live as long as the span ends now.
  if (!plots.dataset.source.includes("until=")) setInterval(function () { if (!document.hidden) read(); }, 15000);
  document.addEventListener("theme", function () { if (told) drawAll(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { if (told) drawAll(); });
  new ResizeObserver(function () {
    for (const chart of charts) chart.setSize({ width: chart.root.parentElement.clientWidth, height: 230 });
  }).observe(plots);
})();
