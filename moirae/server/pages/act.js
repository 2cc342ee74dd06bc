"use strict";
// Shows what the link in a message does, and does it when the button is pressed. The code is in the
// URL's fragment: it is not sent with the address, and is removed from the history at once.
const code = window.location.hash.slice(1);
window.history.replaceState(null, "", window.location.pathname);

const closed = {
  used: "This link was used before.",
  revoked: "This link was revoked.",
  expired: "This link has expired.",
  ended: "The alert has ended.",
};

function show(id, text) {
  document.getElementById(id).textContent = text;
}

async function post(action) {
  const response = await fetch(`/api/v1/action-links/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail || "The server does not answer.");
  return answer;
}

async function load() {
  const link = await post("read");
  const started = new Date(link.starts_at).toLocaleString();
  show("name", link.name);
  show("summary", link.summary);
  show("labels", `${link.labels} since ${started}`);
  document.getElementById("alert").href = `/alerts/${link.alert}`;
  if (link.state !== "open") {
    show("message", closed[link.state]);
    return;
  }
  const button = document.getElementById("act");
  button.textContent = link.label;
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const before = await post("use");
      button.hidden = true;
      show("message", before.state === "open" ? `Done: ${link.label}.` : closed[before.state]);
    } catch (error) {
      button.disabled = false;
      show("message", error.message);
    }
  });
}

if (code) load().catch((error) => show("message", error.message));
else show("message", "The link is incomplete: open it from the message again.");
