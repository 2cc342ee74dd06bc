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
    window.location.replace(nextPage());
    return;
  }
  const problem = await response.json().catch(() => ({}));
  message.textContent = problem.detail || "The login failed.";
}

// The page to open after the login: from the fragment, or the one that needed it.
function nextPage() {
  const page = fragment.get("page") || window.sessionStorage.getItem("moirae.page") || "/";
  window.sessionStorage.removeItem("moirae.page");
  const isLocal = new URL(page, window.location.href).origin === window.location.origin;
  return isLocal && page.startsWith("/") ? page : "/";
}

const fragment = new URLSearchParams(window.location.hash.slice(1));
const code = fragment.get("code");
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
