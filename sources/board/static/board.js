// Keeps the page in step with the board and adds dragging. Every change is also possible without this file.
// Texts reach the page by textContent only; the shape of a card is the template of the page.
"use strict";

const POLL_MILLISECONDS = 1000;
const body = document.body;
const boardId = body.dataset.board;
let revision = body.dataset.revision;
let dragged = null;

const notice = document.getElementById("notice");
let noticeTimer = 0;

function tell(text, label, action) {
  notice.textContent = text;
  if (label) {
    const button = document.createElement("button");
    button.textContent = label;
    button.addEventListener("click", () => { notice.classList.remove("shown"); action(); });
    notice.append(button);
  }
  notice.classList.add("shown");
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.classList.remove("shown"), label ? 8000 : 5000);
}

function localTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const text = element.getAttribute("datetime");
    const at = text ? new Date(text) : null;
    if (at === null || Number.isNaN(at.getTime())) continue;
    const today = at.toDateString() === new Date().toDateString();
    element.textContent = at.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
    element.title = text;
  }
}

async function send(path, fields) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || "That did not work.");
  return answer;
}

function attempt(work) {
  return work().catch((error) => tell(error.message)).finally(refresh);
}

// -- the board as it is now

function field(card, name) {
  return card.querySelector(`[data-field="${name}"]`);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

function fill(card, view, columnId) {
  const address = `/boards/${boardId}/cards/${view.id}`;
  card.dataset.card = view.id;
  const title = field(card, "title");
  title.textContent = view.title;
  title.href = address;
  const priority = field(card, "priority");
  priority.className = `pill tint-${view.priority_color}`;
  setText(priority, view.priority);
  setText(field(card, "retry"), view.retry_count ? `retry ${view.retry_count}` : "");
  for (const name of ["claimed_by", "run_id"]) {
    const element = field(card, name);
    setText(element, view[name]);
    element.parentElement.hidden = view[name] === "";
  }
  const expiry = field(card, "claim_expires_at");
  expiry.setAttribute("datetime", view.claim_expires_at);
  expiry.classList.toggle("expired", view.claim_expired);
  expiry.closest("div").hidden = view.claim_expires_at === "";
  field(card, "claim").hidden = view.claimed_by === "" && view.run_id === "";
  setText(field(card, "last_error"), view.last_error);
  for (const form of card.querySelectorAll("form")) form.action = `${address}/${form.dataset.form}`;
  for (const button of card.querySelectorAll('button[name="column"]')) button.disabled = button.value === columnId;
  localTimes(card);
}

function show(state) {
  const known = new Map([...document.querySelectorAll("[data-card]")].map((card) => [card.dataset.card, card]));
  const seen = new Set();
  const face = document.getElementById("card-face");
  for (const column of state.columns) {
    const section = document.querySelector(`[data-column="${CSS.escape(column.id)}"]`);
    if (section === null) { location.reload(); return; }
    const list = section.querySelector(".cards");
    field(section, "total").textContent = String(column.total);
    const hidden = column.total - column.cards.length;
    setText(field(section, "more"), hidden > 0 ? `and ${hidden} more` : "");
    column.cards.forEach((view, index) => {
      let card = known.get(view.id);
      const before = card && card.parentElement;
      if (!card) card = face.content.querySelector("[data-card]").cloneNode(true);
      seen.add(view.id);
      fill(card, view, column.id);
      if (list.children[index] !== card) {
        const focus = card.contains(document.activeElement) ? document.activeElement : null;
        list.insertBefore(card, list.children[index] || null);
        if (focus) focus.focus();
      }
      if (before !== list) {
        card.classList.remove("fresh");
        void card.offsetWidth;
        card.classList.add("fresh");
      }
    });
  }
  for (const [id, card] of known) if (!seen.has(id)) card.remove();
  if (document.querySelectorAll("[data-column]").length !== state.columns.length) location.reload();
}

const live = document.getElementById("live");
let asking = false;

async function refresh() {
  if (!boardId || asking || dragged) return;
  asking = true;
  try {
    const response = await fetch(`/boards/${boardId}/state?since=${revision}`);
    if (!response.ok) throw new Error(String(response.status));
    const state = await response.json();
    if (state.columns) show(state);
    revision = String(state.revision);
    live.classList.remove("away");
    live.textContent = "live";
  } catch {
    live.classList.add("away");
    live.textContent = "not reached";
  } finally {
    asking = false;
  }
}

// -- people's changes

async function move(card, columnId) {
  const from = card.closest("[data-column]");
  const section = document.querySelector(`[data-column="${CSS.escape(columnId)}"]`);
  if (!section || section === from) return;
  const id = card.dataset.card;
  section.querySelector(".cards").prepend(card);
  await attempt(async () => {
    await send(`/boards/${boardId}/cards/${id}/move`, { column: columnId });
    tell(`Moved to ${section.querySelector("h2 .pill").textContent}`);
  });
  revision = "";
  await refresh();
  const moved = document.querySelector(`[data-card="${CSS.escape(id)}"] .card-title`);
  if (moved) moved.focus();
}

function beside(card, step) {
  const sections = [...document.querySelectorAll("[data-column]")];
  const target = sections[sections.indexOf(card.closest("[data-column]")) + step];
  return target ? target.dataset.column : null;
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

if (boardId) {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const kind = form.dataset.form;
    const card = form.closest("[data-card]");
    if (!kind) return;
    event.preventDefault();
    closeMenus(null);
    if (kind === "move") move(card, event.submitter.value);
    if (kind === "trash") {
      const id = card.dataset.card;
      attempt(async () => {
        await send(form.action, {});
        tell("Moved to trash", "Undo", () => attempt(() => send(`/boards/${boardId}/cards/${id}/restore`, {})));
      });
    }
    if (kind === "add") {
      attempt(async () => {
        await send(form.action, Object.fromEntries(new FormData(form)));
        form.reset();
        form.querySelector("[name=title]").focus();
        tell("Card added");
      });
    }
  });

  document.addEventListener("dragstart", (event) => {
    const card = event.target.closest("[data-card]");
    if (!card) return;
    dragged = card;
    card.classList.add("dragged");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", field(card, "title").textContent);
  });
  document.addEventListener("dragover", (event) => {
    const section = event.target.closest && event.target.closest("[data-column]");
    if (!dragged || !section) return;
    event.preventDefault();
    for (const other of document.querySelectorAll(".target")) if (other !== section) other.classList.remove("target");
    section.classList.add("target");
  });
  document.addEventListener("drop", (event) => {
    const section = event.target.closest && event.target.closest("[data-column]");
    if (!dragged || !section) return;
    event.preventDefault();
    const card = dragged;
    endDrag();
    move(card, section.dataset.column);
  });
  document.addEventListener("dragend", endDrag);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      const menu = document.activeElement.closest("details.menu[open]");
      closeMenus(null);
      if (menu) menu.querySelector("summary").focus();
      return;
    }
    const card = event.target.closest && event.target.closest("[data-card]");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!card || !step || !event.shiftKey || !card.querySelector("[data-form=move]")) return;
    const target = beside(card, step);
    if (target) { event.preventDefault(); move(card, target); }
  });
  document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
  setInterval(() => { if (!document.hidden) refresh(); }, POLL_MILLISECONDS);
  document.addEventListener("visibilitychange", refresh);
}

function endDrag() {
  if (dragged) dragged.classList.remove("dragged");
  for (const section of document.querySelectorAll(".target")) section.classList.remove("target");
  dragged = null;
}

// -- a card's own page: reload when something changed, unless a person is writing

const watched = body.dataset.watch;
if (watched) {
  let writing = false;
  document.addEventListener("input", () => { writing = true; });
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const response = await fetch(watched);
      const state = await response.json();
      live.classList.remove("away");
      if (state.revision === revision) return;
      if (writing) { live.textContent = "changed since"; return; }
      location.reload();
    } catch {
      live.classList.add("away");
    }
  }, POLL_MILLISECONDS);
}

localTimes(document);
