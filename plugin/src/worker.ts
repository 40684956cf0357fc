// The worker's process: the streams between Paperclip and the SDK's worker host, and the end of the process.
//
// Both sides take a line for a message and find lines with `readline`, which on Node.js 24 also ends one at U+2028 and
// U+2029. JSON may hold these two unescaped, inside strings only, so here they are escaped on their way in and out: what the
// strings say stays the same, and no message is torn.
//
// With streams that are not the process's own, the SDK's host leaves the rest to its caller: to exit when Paperclip has
// asked for it or is gone, and to survive a rejection that nobody handled.

import { Transform, Writable } from "node:stream";
import { startWorkerRpcHost } from "@paperclipai/plugin-sdk";
import { createPlugin } from "./plugin.js";

const escaped = (json: string): string =>
  json.replace(/[\u2028\u2029]/g, (separator) => (separator === "\u2028" ? "\\u2028" : "\\u2029"));

const plugin = createPlugin();
const stdin = new Transform({
  decodeStrings: false,
  transform: (json: string, _encoding, done) => done(null, escaped(json)),
});
const stdout = new Writable({
  decodeStrings: false,
  // The SDK writes nothing but strings, each of them a whole message. One that nobody reads any more is no fault.
  write: (json: string, _encoding, done) => void process.stdout.write(escaped(json), () => done()),
});

// The host stops reading once it has answered `shutdown`, and when its input has ended, as it does when Paperclip is gone.
// Then no command may be left behind, and what was written goes out first.
stdin.once("pause", async () => {
  await plugin.definition.onShutdown?.();
  stdout.end(() => process.exit(0));
});
process.stdout.on("error", () => {});
process.on("unhandledRejection", (reason) => console.error("Unhandled rejection:", reason));

process.stdin.setEncoding("utf8").pipe(stdin);
startWorkerRpcHost({ plugin, stdin, stdout });
