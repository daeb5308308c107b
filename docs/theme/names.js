// What the theme leaves out for those who hear a page or have no mouse: names of its search and of the button beside each block of
// code, and tables that scroll by keys. Nothing is sent or stored.
const named = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((nav, number) => {
    nav.setAttribute("aria-label", `Code block ${number + 1}`);
  });
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) {
      table.setAttribute("tabindex", "0");
      table.setAttribute("role", "group");
      table.setAttribute("aria-label", "Table, wider than the window");
    }
  });
};
addEventListener("resize", () => named());
new MutationObserver(named).observe(document.body, { childList: true, subtree: true });
named();
