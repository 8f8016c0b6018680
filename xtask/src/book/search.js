// Searches the sections of all pages: every word must occur; headings count more than text.
"use strict";
const field = document.getElementById("search");
const found = document.getElementById("found");
const pages = document.getElementById("pages");

function score(words, [, title, heading, text]) {
  let sum = 0;
  for (const word of words) {
    const at = [title, heading, text].map((part) => part.toLowerCase().includes(word));
    if (!at.includes(true)) return 0;
    sum += at[1] ? 10 : at[0] ? 5 : 1;
  }
  return sum;
}

function excerpt(word, text) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return text.slice(at, at + 120);
}

field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  pages.hidden = words.length > 0;
  found.replaceChildren();
  const hits = window.BOOK.map((section) => [score(words, section), section]).filter(([points]) => points > 0);
  hits.sort((one, two) => two[0] - one[0]);
  for (const [, [address, title, heading, text]] of hits.slice(0, 30)) {
    const link = document.createElement("a");
    link.href = document.body.dataset.up + address;
    link.textContent = heading && heading !== title ? `${title}: ${heading}` : title;
    const words_around = document.createElement("small");
    words_around.textContent = excerpt(words[0], text);
    const item = document.createElement("li");
    item.append(link, words_around);
    found.append(item);
  }
  if (words.length > 0 && hits.length === 0) found.textContent = "No page has these words.";
});
