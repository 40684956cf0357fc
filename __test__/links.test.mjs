// Links lead somewhere: those of the pages to files and headings, those of the declarations' `@source` to sections.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { PAGES, ROOT, anchorsOf, headingsOf, linksIn, linksOf, piecesOf, read } from "./support/markdown.mjs";

/** Why a link leads nowhere, if it does. Nobody is asked about other hosts: of those only the form is looked at. */
function fault(page, target) {
  if (/^[a-z][a-z+.-]*:/i.test(target)) {
    return URL.canParse(target) && new URL(target).protocol === "https:" && new URL(target).host.includes(".") ? undefined : "no https URL";
  }
  const [file, anchor] = target.split("#");
  const found = file === "" ? page : path.posix.join(path.posix.dirname(page), decodeURIComponent(file));
  if (found.startsWith("..") || !existsSync(path.join(ROOT, found))) return "no such file";
  if (anchor !== undefined && !(found.endsWith(".md") && anchorsOf(found).includes(anchor))) return "no such heading";
}

for (const page of PAGES) {
  test(`the links of ${page} lead somewhere`, () => {
    const broken = linksOf(page).map((target) => [target, fault(page, target)]).filter(([, why]) => why !== undefined);
    assert.deepEqual(broken, []);
  });
}

test("a link to a file, a heading or a host that is not there is found", () => {
  for (const [target, why] of [
    ["docs/contract.md#leases", undefined],
    ["#errors", undefined],
    ["https://rustup.rs", undefined],
    ["docs/none.md", "no such file"],
    ["../elsewhere.md", "no such file"],
    ["docs/contract.md#nothing", "no such heading"],
    ["index.d.ts#execute", "no such heading"],
    ["#nothing", "no such heading"],
    ["http://example.org", "no https URL"],
    ["https://nowhere", "no https URL"],
  ]) assert.equal(fault("README.md", target), why, target);
});

test("every page of docs/ can be reached from the README", () => {
  const reached = new Set(["README.md"]);
  for (const page of reached) {
    for (const target of linksOf(page).filter((each) => !each.includes(":"))) {
      const file = path.posix.join(path.posix.dirname(page), target.split("#")[0]);
      if (PAGES.includes(file)) reached.add(file);
    }
  }
  assert.deepEqual(PAGES.filter((page) => page.startsWith("docs/") && !reached.has(page)), []);
});

const { files } = JSON.parse(read("package.json"));
/** Whether users get a file: npm adds those two by itself. */
const isPublished = (file) => ["LICENSE", "README.md", ...files].some((entry) => (entry.endsWith("/") ? file.startsWith(entry) : file === entry));

test("a link of a published page leads to what is published, or the text beside it says that it is in the repository", () => {
  const pages = PAGES.filter(isPublished);
  assert.ok(pages.length >= 10);
  const links = pages.flatMap((page) => piecesOf(page).flatMap((piece) => linksIn(piece).filter((target) => !/^(?:#|[a-z][a-z+.-]*:)/i.test(target)).map((target) => {
    const file = path.posix.join(path.posix.dirname(page), target.split("#")[0]);
    return { page, target, published: isPublished(file), said: /\bin the\s+repository\b/i.test(piece) };
  })));
  assert.ok(links.some(({ published, said }) => !published && said));
  assert.deepEqual(links.filter(({ published, said }) => !published && !said).map(({ page, target }) => [page, target]), []);
});

test("the pages that the declarations name are published with them", () => {
  const named = ["index.d.ts", "emulator/index.d.mts"].flatMap((file) => read(file).match(/\bdocs\/[\w-]+\.md\b/g) ?? []);
  assert.ok(named.length >= 3);
  assert.deepEqual(named.filter((page) => !files.includes(page)), []);
});

const SECTIONS = { README: "README.md", contract: "docs/contract.md", CreateOS: "docs/protocol.md", emulator: "docs/emulator.md" };

for (const file of ["index.d.ts", "emulator/index.d.mts"]) {
  test(`each item of ${file} says where its facts come from, and there is such a section`, () => {
    const items = [...read(file).matchAll(/^(?:\/\*\*\n((?: \*.*\n)*?) \*\/\n)?export \w+ (\w+)/gm)];
    assert.ok(items.length >= 10);
    for (const [, comment = "", name] of items) {
      const source = comment.split("@source ")[1]?.replaceAll(/\n \* ?/g, " ").trim();
      assert.ok(source, `${name} has no @source`);
      for (const part of source.split("; ")) {
        const [, place, rest] = /^(?:limits: )?(\w+), (.+)$/.exec(part) ?? assert.fail(`${name}: ${part}`);
        if (place === "SDK") {
          assert.match(rest, /^`\w/, name);
          continue;
        }
        const sections = [...rest.matchAll(/"([^"]+)"/g)].map(([, section]) => section);
        assert.ok(sections.length > 0, `${name}: ${part}`);
        for (const section of sections) assert.ok(headingsOf(SECTIONS[place]).includes(section), `${name}: ${place}, "${section}"`);
      }
    }
  });
}
