"use strict";
// Exchanges a token, or the one-time code in the URL's fragment, for a session cookie. The fragment
// is not sent to any server, and is removed from the history at once.
const message = document.getElementById("message");

async function logIn(login) {
  message.textContent = "Logging in …";
  const response = await fetch("/api/v1/sessions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(login),
  });
  if (response.ok) {
    const session = await response.json();
    message.textContent = `Logged in as ${session.name} (${session.role}).`;
    return;
  }
  const problem = await response.json().catch(() => ({}));
  message.textContent = problem.detail || "The login failed.";
}

const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
if (code) {
  window.history.replaceState(null, "", window.location.pathname);
  logIn({ code });
}

document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  const token = field.value;
  field.value = "";
  logIn({ token });
});
