"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const line = main.querySelector("[data-live-line]");
  const says = line ? line.firstChild.data : "";
  const renew = async () => {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && !fresh.isEqualNode(part) && !part.contains(document.activeElement)) part.replaceWith(fresh);
    }
  };
  const turn = async () => {
    if (!document.hidden) {
      let text = says;
      try { await renew(); } catch (error) { text = "The daemon does not answer; this is what it said last. "; }
      if (line) line.firstChild.data = text;
    }
    setTimeout(turn, main.dataset.refresh * 1000);
  };
  setTimeout(turn, main.dataset.refresh * 1000);
})();
