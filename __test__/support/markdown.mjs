// The project's pages as tests look at them: which there are, their blocks of code, their links and what links can lead to.
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), "..", "..");

/** What nobody wrote here. */
const MADE = new Set(["node_modules", "target", "dist"]);

export const read = (file) => readFileSync(path.join(ROOT, file), "utf8");

function pagesIn(folder) {
  return readdirSync(path.join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const file = path.posix.join(folder, entry.name);
    if (entry.isDirectory()) return MADE.has(entry.name) || entry.name.startsWith(".") ? [] : pagesIn(file);
    return entry.name.endsWith(".md") ? [file] : [];
  });
}

/** All of them, relative to the project. */
export const PAGES = pagesIn("").sort();

/**
 * The fenced blocks of a page, without the indentation that lists give them. `excuse` is the reason of a comment
 * `<!-- not run: REASON -->` right before.
 * @returns {Array<{page: string, line: number, language: string, code: string, excuse: string | undefined}>}
 */
export function blocksOf(page) {
  const markdown = read(page);
  const fences = /^(?:<!-- not run: (?<excuse>.+?) -->\n+)?(?<indent> *)```(?<language>\w*)\n(?<code>[\s\S]*?)^\k<indent>```$/gm;
  return [...markdown.matchAll(fences)].map(({ index, groups: { excuse, indent, language, code } }) => ({
    page, line: markdown.slice(0, index).split("\n").length, language, excuse,
    code: code.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  }));
}

/** A page without its code: what looks like a link or a heading there is none. */
const proseOf = (page) => read(page).replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");

/** The anchors of a page, as they are made of its headings: of equal ones each gets a number of its own. */
export function anchorsOf(page) {
  const seen = new Map();
  return headingsOf(page).map((heading) => {
    const anchor = heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
}

/** The headings of a page, as they are written. */
export const headingsOf = (page) => [...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, text]) => text);

/** Where the links of a page lead. */
export const linksOf = (page) => linksIn(proseOf(page));

/** A page in pieces that are read as one: paragraphs, items of lists, rows of tables. */
export const piecesOf = (page) => proseOf(page).split(/\n\n+|\n(?= *(?:-|\||\d+\.) ?)/);

/** Where the links of a text lead: in brackets, by reference, bare in angles. */
export function linksIn(prose) {
  const text = prose.replaceAll(/`[^`\n]*`/g, "code");
  const found = [/\]\(([^)\s]+)(?: "[^"]*")?\)/g, /^\[[^\]]+\]: (\S+)$/gm, /<(https?:[^>\s]+)>/g, /\b(?:href|src)="([^"]+)"/g];
  return found.flatMap((form) => [...text.matchAll(form)].map(([, target]) => target));
}
