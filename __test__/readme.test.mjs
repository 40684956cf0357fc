// What the pages say of messages, options and commands, held to what there is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PAGES, headingsOf, read } from "./support/markdown.mjs";

const README = read("README.md");
const TROUBLESHOOTING = read("docs/troubleshooting.md");

/** The messages of a type in src/error.rs, with an ellipsis for what varies. */
function messagesOf(from, to) {
  const source = read("src/error.rs");
  const part = source.slice(source.indexOf(from), source.indexOf(to));
  const found = [...part.matchAll(/#\[error\(\s*"([^"]*)"\s*\)\]/g)];
  return found.map(([, message]) => message.replaceAll(/\\\n\s*/g, "").replaceAll(/\{\w+\}/g, "…"));
}

const MESSAGES = messagesOf("pub enum Fault {", "impl Fault {").toSorted();

/** A message as a page writes it, likewise. */
const plain = (message) => message.replaceAll(/\b(NAME|STATUS|OPERATION|STATE|SANDBOX|REASON|N)\b/g, "…");

test("each message of the code is in the README's tables once, and there is no other", () => {
  const errors = README.slice(README.indexOf("\n## Errors\n"), README.indexOf("\n## What is guaranteed\n"));
  const rows = [...errors.matchAll(/^\| `(.*?)` \| (.+) \|$/gm)];
  assert.ok(MESSAGES.length > 40);
  assert.deepEqual(rows.map(([, message]) => plain(message)).toSorted(), MESSAGES);
  for (const [, message, remedy] of rows) assert.ok(remedy.length > 8, message);
});

/** The sections about messages, each with what its part of the page says of all of them. */
function sections() {
  return TROUBLESHOOTING.split(/^## /m).slice(1).flatMap((part) => {
    const [common, ...rest] = part.split(/^### /m);
    return rest.map((section) => {
      const [heading, ...text] = section.split("\n");
      return { heading, text: text.join("\n"), common };
    });
  });
}

test("each message of the code has a section of its own in the troubleshooting page, and there is none for another", () => {
  const messages = headingsOf("docs/troubleshooting.md").flatMap((heading) => /^`(.+)`$/.exec(heading)?.[1] ?? []);
  assert.deepEqual(messages.map(plain).toSorted(), MESSAGES);
});

test("each section says what happened, what state things are in and what to do", () => {
  const all = sections();
  assert.ok(all.length > MESSAGES.length);
  for (const { heading, text, common } of all) {
    assert.match(text, /\*\*Happened\.\*\* \S/, heading);
    assert.match(text, /\*\*Do\.\*\* \S/, heading);
    assert.match(common + text, /\*\*State\.\*\* \S/, heading);
  }
});

test("each option's fault has its text in the troubleshooting page, and there is no other", () => {
  const thrown = [...read("index.js").matchAll(/new RangeError\(([`"'])(.*?)\1\)/g)].map(([, , message]) => message.replaceAll(/\$\{\w+\}/g, "…"));
  const { text } = sections().find(({ heading }) => heading === "A `RangeError` that names an option");
  const told = [...text.matchAll(/^- `([^`]+)`/gm)].map(([, message]) => message.replaceAll(/\b(OPTION|A|B)\b/g, "…"));
  assert.ok(thrown.length >= 5);
  assert.deepEqual(told.toSorted(), thrown.toSorted());
});

test("each code of a warning is in the README, and has a row in the troubleshooting page", () => {
  const codes = new Set([...read("index.js").matchAll(/"(CREATEOS_\w+_CALLBACK)"/g)].map(([, code]) => code));
  const rows = [...TROUBLESHOOTING.slice(TROUBLESHOOTING.indexOf("\n## Warnings\n")).matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code);
  assert.ok(codes.size >= 3);
  assert.deepEqual(rows.toSorted(), [...codes].toSorted());
  for (const code of codes) assert.ok(README.includes(`\`${code}\``), code);
});

test("each reason of a host's failure has a row in the troubleshooting page", () => {
  const reasons = messagesOf("pub enum HostFault {", "impl From<&std::io::Error> for HostFault {").filter((reason) => reason !== "nobody reads what is sent");
  const { text } = sections().find(({ heading }) => heading.includes("REASON"));
  const rows = [...text.matchAll(/^\| (`.+) \| .+ \|$/gm)].flatMap(([, cell]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, reason]) => reason));
  assert.ok(reasons.length > 5);
  assert.deepEqual(rows.toSorted(), reasons.toSorted());
});

test("what the README says of operations, options and failures is what the code says", async () => {
  const source = read("src/error.rs");
  const words = (from, to) => [...source.slice(source.indexOf(from), source.indexOf(to)).matchAll(/=> "(.*)",/g)].map(([, word]) => word);
  const operations = words("impl Operation {", "impl fmt::Display for Operation");
  const failures = words("impl Failure {", "How one request ended");
  assert.equal(operations.length + failures.length, 13);
  for (const word of [...operations, ...failures]) assert.ok(README.includes(`\`${word}\``), word);

  const { createProvider } = await import("./support/package.mjs");
  const rows = [...README.matchAll(/^\| `(\w+)(?:\.(\w+))?` \| ([\d,]+) \| ([\d,]+) to ([\d,]+) \|/gm)];
  assert.equal(rows.length, 6);
  for (const [, name, member, ...numbers] of rows) {
    const [, least, most] = numbers.map((number) => Number(number.replaceAll(",", "")));
    const given = (value) => ({ [name]: member ? { [member]: value } : value });
    createProvider(given(least));
    createProvider(given(most));
    const message = `${[name, member].filter(Boolean).join(".")} must be an integer from ${least} to ${most}`;
    for (const value of [least - 1, most + 1, 1.5, "1"]) assert.throws(() => createProvider(given(value)), { name: "RangeError", message });
  }
});

test("each export is in the README's table", async () => {
  const table = README.slice(README.indexOf("\n## API\n"), README.indexOf("\n### Settings\n"));
  const named = [...table.matchAll(/^\| (`.+?) \| /gm)].flatMap(([, cell]) => [...cell.matchAll(/`(?:new )?(\w+)/g)].map(([, name]) => name));
  assert.deepEqual(named.toSorted(), Object.keys(await import("createos-native")).filter((name) => /^\w+$/.test(name) && !["default", "module.exports"].includes(name)).toSorted());
});

test("each route of the emulator is in its page's table", () => {
  const routes = [...read("emulator/routes/index.mjs").matchAll(/route: "(\w+)"/g)].map(([, route]) => route);
  const page = read("docs/emulator.md");
  const table = page.slice(page.indexOf("| `route` |"), page.indexOf("`attempt` counts"));
  const named = [...table.matchAll(/^\| (`\w+`.*?) \| /gm)].flatMap(([, cell]) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  assert.ok(routes.length >= 20);
  assert.deepEqual(named.toSorted(), ["route", "unknown", ...routes].toSorted());
});

test("the test command is in the README, and each npm command that a page names exists", () => {
  const { scripts } = JSON.parse(read("package.json"));
  assert.match(README, /The test command is `npm test`\./);
  for (const page of PAGES) {
    for (const [, name] of read(page).matchAll(/\bnpm (?:run ([\w:]+))/g)) assert.ok(name in scripts, `${page}: npm run ${name}`);
  }
});
