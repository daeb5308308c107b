// What is wrong with the page as it is drawn now: run in the page by page_checks.py, which says what each check is.
// The window must be as high as the document, so that every point can be asked what is drawn there.
() => {
  for (const one of document.getAnimations()) one.finish(); // a change of colours that is under way is not what is looked at
  const problems = [];
  const say = (check, element, text) => problems.push({ check, where: path(element), text });

  const path = (element) => {
    const steps = [];
    for (let at = element; at && at.nodeType === 1 && steps.length < 4; at = at.parentElement) {
      const kind = at.getAttribute("class");
      steps.unshift(at.tagName.toLowerCase() + (at.id ? "#" + at.id : kind ? "." + kind.trim().split(/\s+/).join(".") : ""));
    }
    return steps.join(" > ");
  };

  // -- colours: whatever notation a computed style has, as red, green, blue (0 to 255) and alpha (0 to 1) ------------
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "#000";
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, below) => {
    const alpha = top[3] + below[3] * (1 - top[3]);
    const mix = (i) => (alpha ? (top[i] * top[3] + below[i] * below[3] * (1 - top[3])) / alpha : 0);
    return [mix(0), mix(1), mix(2), alpha];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvasColour = isDark && /dark/.test(getComputedStyle(document.documentElement).colorScheme) ? [18, 18, 18, 1] : [255, 255, 255, 1];

  // What is painted behind `element` at a point, itself included unless it is a text of SVG (whose fill is the letters).
  const behind = (element, x, y) => {
    const stack = document.elementsFromPoint(x, y);
    const isLetters = element instanceof SVGElement;
    let from = stack.indexOf(element);
    if (from < 0) from = stack.findIndex((one) => one.contains(element));
    let found = [0, 0, 0, 0];
    let isPicture = false;
    for (const one of stack.slice(Math.max(from, 0))) {
      if (found[3] >= 0.999) break;
      if (one === element && isLetters) continue;
      const style = getComputedStyle(one);
      let painted;
      if (one instanceof SVGElement && !(one instanceof SVGSVGElement)) {
        if (one.closest("text") || style.fill === "none" || !one.getBBox) continue;
        painted = colour(style.fill).slice();
        painted[3] *= Number(style.fillOpacity);
      } else {
        if (style.backgroundImage !== "none") isPicture = true;
        painted = colour(style.backgroundColor).slice();
      }
      painted[3] *= Number(style.opacity);
      found = over(found, painted);
    }
    return { ground: over(found, canvasColour), isPicture };
  };

  // -- texts: each line of each text node, cut to the containers that clip it ----------------------------------------
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const cut = (element, box) => {
    let { left, top, right, bottom } = box;
    for (let at = element; at && at !== document.body && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const edge = at.getBoundingClientRect();
      if (style.overflowX !== "visible") [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      if (style.overflowY !== "visible") [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, top, right, bottom };
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "TITLE"].includes(element.tagName.toUpperCase())) continue;
    if (element.closest("svg title, svg desc, option, textarea") || !isShown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const line of range.getClientRects()) {
      const box = cut(element, line);
      if (box.right - box.left < 1 || box.bottom - box.top < 1) continue;
      // What comes into the window when it has the focus (the link past the navigation): keyboard() looks at it.
      if (box.right <= 0 || box.bottom + scrollY <= 0) continue;
      // An accessible text that is not drawn: one pixel, cut off.
      if (box.right - box.left <= 2 && box.bottom - box.top <= 2) continue;
      texts.push({ node, element, box, text: node.data.trim().slice(0, 60) });
    }
  }

  // -- overflow ----------------------------------------------------------------------------------------------------
  const page = document.scrollingElement;
  if (page.scrollWidth > page.clientWidth) {
    const out = [...document.body.querySelectorAll("*")].filter((one) => {
      if (!isShown(one) || !one.getClientRects().length) return false;
      return cut(one.parentElement, one.getBoundingClientRect()).right > page.clientWidth + 1;
    });
    const widest = out[out.length - 1] || document.body;
    say("overflow", widest, `the page is ${page.scrollWidth} wide in a window of ${page.clientWidth}`);
  }
  for (const { element, box, text } of texts) {
    if (box.left < -1 || (box.right > page.clientWidth + 1 && page.scrollWidth <= page.clientWidth)) {
      say("overflow", element, `"${text}" is drawn outside of the window`);
    }
  }
  for (const one of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(one);
    const isCut = ["hidden", "clip"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
    if (isCut && one.clientWidth > 2 && style.textOverflow !== "ellipsis" && !(one instanceof SVGElement)) {
      say("overflow", one, `${one.scrollWidth - one.clientWidth} pixels of its content are cut off`);
    }
    // What scrolls must do so from the keyboard as well.
    const scrolls = ["auto", "scroll"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
    if (scrolls && isShown(one) && one.tabIndex < 0) say("keyboard", one, "scrolls, but can't have the focus");
  }
  for (const { element, box, text } of texts) {
    const svg = element instanceof SVGElement && element.closest("svg");
    if (!svg) continue;
    const edge = svg.getBoundingClientRect();
    if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 2 || box.bottom > edge.bottom + 2) {
      say("overflow", element, `"${text}" leaves its picture`);
    }
  }

  // -- overlap -----------------------------------------------------------------------------------------------------
  const sorted = texts.slice().sort((a, b) => a.box.top - b.box.top);
  for (let i = 0; i < sorted.length; i++) {
    const one = sorted[i];
    for (let j = i + 1; j < sorted.length && sorted[j].box.top < one.box.bottom; j++) {
      const other = sorted[j];
      if (other.node === one.node) continue;
      const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (wide > 2 && high > 3) say("overlap", one.element, `"${one.text}" and "${other.text}" (${path(other.element)})`);
    }
  }

  // -- contrast ----------------------------------------------------------------------------------------------------
  const judge = (element, style, x, y, text) => {
    const isSvg = element instanceof SVGElement;
    const { ground, isPicture } = behind(element, x, y);
    if (isPicture) return say("contrast", element, `"${text}" is on a picture or gradient: no contrast can be told`);
    const letters = colour(isSvg ? style.fill : style.color).slice();
    for (let at = element; at; at = at.parentElement) letters[3] *= Number(getComputedStyle(at).opacity);
    const found = contrast(over(letters, ground), ground);
    const pixels = parseFloat(style.fontSize);
    const isLarge = pixels >= 24 || (pixels >= 18.66 && Number(style.fontWeight) >= 700);
    const least = isLarge ? 3 : 4.5;
    if (found < least - 0.005) say("contrast", element, `"${text}" has ${found.toFixed(2)}:1, needs ${least}:1`);
  };
  const judged = new Set();
  for (const { element, box, text } of texts) {
    if (judged.has(element)) continue;
    judged.add(element);
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const stack = document.elementsFromPoint(x, y);
    const top = stack.find((one) => !(one instanceof SVGElement && element.contains(one)));
    if (top && top !== element && !element.contains(top) && !top.contains(element)) {
      // Something lies on it: fine only if nothing is painted there.
      const painted = top instanceof SVGElement ? getComputedStyle(top).fill : getComputedStyle(top).backgroundColor;
      if (painted !== "none" && colour(painted)[3] > 0 && stack.indexOf(top) < stack.indexOf(element)) {
        say("overlap", element, `"${text}" is covered by ${path(top)}`);
      }
    }
    judge(element, getComputedStyle(element), x, y, text);
  }
  for (const one of document.body.querySelectorAll("*")) {
    if (!isShown(one)) continue;
    for (const part of ["::before", "::after"]) {
      const style = getComputedStyle(one, part);
      if (["none", "normal", '""'].includes(style.content) || style.display === "none") continue;
      const box = one.getBoundingClientRect();
      judge(one, style, box.left + 3, box.top + Math.min(10, box.height / 2), style.content);
    }
    if (one.matches("input:not([type=hidden]):not([type=checkbox]):not([type=radio]), select, textarea, button")) {
      const box = one.getBoundingClientRect();
      if (one.matches("button")) continue; // has a text of its own
      judge(one, getComputedStyle(one), (box.left + box.right) / 2, (box.top + box.bottom) / 2, one.name);
    }
  }

  // -- names -------------------------------------------------------------------------------------------------------
  for (const one of document.querySelectorAll("a[href], button")) {
    if (isShown(one) && !(one.textContent.trim() || one.getAttribute("aria-label"))) say("names", one, "has no name");
  }
  for (const one of document.querySelectorAll("input:not([type=hidden]):not([type=submit]), select, textarea")) {
    if (isShown(one) && !one.labels?.length && !one.getAttribute("aria-label")) say("names", one, `${one.name} has no label`);
  }
  for (const one of document.querySelectorAll("svg[role=img]")) {
    if (!one.getAttribute("aria-label") && !one.querySelector("title")) say("names", one, "a picture without words");
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids.filter((one, index) => ids.indexOf(one) !== index))) {
    say("names", document.getElementById(id), `the id ${id} is there twice`);
  }
  return problems;
}
