// U+2028 and U+2029 in every text that goes through a worker. On both sides `readline` takes them for the end of a line.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Environment, startEndpoint } from "./support/environment.mjs";
import { Host, textOf } from "./support/host.mjs";

const TEXT = "one\u2028two\u2029three\u2028\u2029 \\u2028 \\\u2028 \"\u2029\" \u{1F600}\r\nfour\u2028";

it("passes line and paragraph separators on unchanged, in both directions", async (t) => {
  const emulator = await startEndpoint(t);
  const host = await Host.start(t);
  const environment = new Environment(host, emulator);
  const lease = await environment.acquire();

  const prompt = await environment.run(lease, "tee /dev/stderr", { stdin: TEXT });
  assert.deepEqual([prompt.stdout, prompt.stderr], [TEXT, TEXT]);
  assert.deepEqual([textOf(prompt.live, "stdout"), textOf(prompt.live, "stderr")], [TEXT, TEXT]);

  const words = await environment.run(lease, "", { args: ["-c", 'printf %s "$1$VALUE"', "bash", TEXT], env: { VALUE: TEXT } });
  assert.deepEqual([words.stdout, textOf(words.live, "stdout")], [TEXT + TEXT, TEXT + TEXT]);

  // Long enough that pipes cut it inside characters.
  const long = "\u2028\u2029".repeat(100_000);
  const echoed = await environment.run(lease, "cat", { stdin: long });
  assert.ok(echoed.stdout === long, "the result is what was sent");
  assert.ok(textOf(echoed.live, "stdout") === long, "and so is the live output");

  assert.ok(!/[\u2028\u2029]/.test(host.stdout), "on the wire they are escaped");
  await environment.destroy(lease);
  assert.deepEqual(await host.shutdown(), [0, null]);
});
