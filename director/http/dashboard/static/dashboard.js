"use strict";
// What the pages need beyond htmx: the theme, keys, and saying plainly that the director does not answer.
(function () {
  const body = document.body;

  const theme = document.getElementById("theme");
  if (theme) theme.addEventListener("click", function () {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    document.cookie = "director_theme=" + root.dataset.theme + "; path=/; max-age=31536000; samesite=strict";
    document.dispatchEvent(new CustomEvent("theme"));
  });

  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      const find = document.getElementById("find");
      if (find) { event.preventDefault(); find.focus(); find.select(); }
      return;
    }
    const tab = document.querySelector('header nav a[data-key="' + CSS.escape(event.key) + '"]');
    if (tab) tab.click();
  });
  // A link that acts as a button is pressed by the space bar too.
  document.addEventListener("keydown", function (event) {
    const button = event.target.closest('a[role="button"]');
    if (button && event.key === " ") { event.preventDefault(); button.click(); }
  });

  const offline = document.getElementById("offline");
  function answered(at) {
    body.classList.remove("offline");
    if (offline) { offline.hidden = true; offline.querySelector("time").dateTime = at.toISOString(); }
  }
  function silent() {
    if (!offline || !offline.hidden) return;
    const time = offline.querySelector("time");
    time.textContent = new Date(time.dateTime || Date.now()).toISOString().slice(11, 19) + " UTC";
    offline.hidden = false;
    body.classList.add("offline");
  }
  answered(new Date());
  body.addEventListener("htmx:afterOnLoad", function () { answered(new Date()); });
  body.addEventListener("htmx:sendError", silent);
  body.addEventListener("htmx:timeout", silent);
  body.addEventListener("htmx:responseError", silent);
  // Nobody looks, or somebody is selecting text: leave the page as it is.
  body.addEventListener("htmx:beforeRequest", function (event) {
    const timed = event.detail.requestConfig.triggeringEvent === undefined || event.detail.requestConfig.triggeringEvent === null;
    const selecting = !getSelection().isCollapsed && event.detail.elt.contains(getSelection().anchorNode);
    if (timed && (document.hidden || selecting)) event.preventDefault();
  });
  // A page that has been in the background catches up at once.
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) for (const part of document.querySelectorAll("[data-live], #status")) {
      htmx.ajax("GET", part.getAttribute("hx-get"), { target: part, swap: "outerHTML" });
    }
  });
})();
