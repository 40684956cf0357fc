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
// Backwards, since the longest waits are in the last file: the others pass meanwhile.
const files = readdirSync(VECTORS).filter((name) => name.endsWith(".json")).sort().reverse();
const vectors = files.flatMap((name) => JSON.parse(readFileSync(new URL(name, VECTORS), "utf8")));

describe("conformance", { concurrency: 4 }, () => {
  for (const vector of vectors) {
    it(`${vector.id}: ${vector.title}`, { timeout: 60_000 }, async () => {
      const observed = relax(await play(vector, api), vector.expect);
      assert.deepStrictEqual(observed, vector.expect, `observed ${JSON.stringify(observed)}\nexpected ${JSON.stringify(vector.expect)}`);
    });
  }
});
