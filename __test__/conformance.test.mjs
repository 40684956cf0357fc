// Every vector recorded from the TypeScript provider is one test; conformance/README.md says what a vector holds.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { load } from "./conformance/adapter.mjs";
import { play, relax, SECRET } from "./conformance/play.mjs";
import { conceal } from "./support/secrets.mjs";

const VECTORS = new URL("./conformance/vectors/", import.meta.url);

conceal(SECRET);
const api = await load();
/** In these most of the time is waiting before another attempt, up to 26 s in one vector; the longest come first. */
const WAITING = ["wait", "more-wait", "reconnect", "more-reconnect", "cleanup", "more-cleanup"].map((name) => `${name}.json`);
const quick = readdirSync(VECTORS).filter((name) => name.endsWith(".json") && !WAITING.includes(name)).sort();

/** @param {string[]} names */
function each(names) {
  for (const vector of names.flatMap((name) => JSON.parse(readFileSync(new URL(name, VECTORS), "utf8")))) {
    it(`${vector.id}: ${vector.title}`, { timeout: 60_000 }, async () => {
      const observed = relax(await play(vector, api), vector.expect);
      assert.deepStrictEqual(observed, vector.expect, `observed ${JSON.stringify(observed)}\nexpected ${JSON.stringify(vector.expect)}`);
    });
  }
}

describe("conformance", { concurrency: 2 }, () => {
  describe("where there is a wait before another attempt", { concurrency: 8 }, () => each(WAITING));
  // Some have time limits of less than a second, which many at once would break.
  describe("elsewhere", { concurrency: 3 }, () => each(quick));
});
