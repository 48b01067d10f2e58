// One page with six views, chosen by the fragment of its address.

import { byId } from "./dom.js";
import * as now from "./now.js";
import * as pace from "./pace.js";
import * as origins from "./origins.js";
import * as origin from "./origin.js";
import * as identities from "./identities.js";
import * as explain from "./explain.js";

// Each view exports start, which is called once, show, which is called with the address's
// query whenever that changes, and hide.
const views = { now, pace, origins, origin, identities, explain };
let current = "";

function follow() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const name = Object.hasOwn(views, path) ? path : "now";
  const arrived = current !== "" && current !== name;
  if (current !== name) {
    if (current) {
      views[current].hide();
      byId(current).hidden = true;
    }
    byId(name).hidden = false;
    current = name;
    mark(name);
  }
  views[name].show(new URLSearchParams(query));
  if (arrived) {
    window.scrollTo(0, 0);
    byId(`${name}-title`).focus({ preventScroll: true });
  }
}

// mark shows in title and navigation which view is open.
function mark(name) {
  document.title = `${byId(`${name}-title`).textContent || "Origin"} · robotsproxy`;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    const here = link.dataset.view === name || name === "origin" && link.dataset.view === "origins";
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

for (const view of Object.values(views)) view.start();
window.addEventListener("hashchange", follow);
follow();
