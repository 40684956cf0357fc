// A CreateOS endpoint that costs next to nothing, in a process of its own: it sends what was rendered before, by the
// plainest HTTP/1.1 there is, so that a client is what is measured. run.mjs starts it, tells it by messages what to
// have ready and gets its port; it ends with its parent.

import { createServer } from "node:net";
import { render } from "./bodies.mjs";

/** What a quiet command prints before it falls silent. */
const GREETING = '{"type":"data","seq":1,"stream":"stdout","data_base64":"aGVsbG8K"}\n';

const answer = (/** @type {object} */ data) => {
  const body = JSON.stringify({ status: "success", data });
  return Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
};
const stream = (/** @type {string} */ framing) => Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n${framing}\r\n\r\n`);

const CREATED = answer({ process_id: "p" });
const DONE = answer({ tree_exited: true });
const QUIET = Buffer.concat([
  stream("transfer-encoding: chunked"), Buffer.from(`${GREETING.length.toString(16)}\r\n${GREETING}\r\n`),
]);

/** Whole answers to `connect`, by sandbox. @type {Map<string, Buffer>} */
const streams = new Map();

/** @param {string} method @param {string} path */
function respond(method, path) {
  const connect = /^\/v1\/sandboxes\/([^/]+)\/processes\/p\/connect\?/.exec(path);
  if (connect) return connect[1] === "quiet" ? QUIET : streams.get(connect[1]) ?? Buffer.from("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  return method === "POST" && path.endsWith("/processes") ? CREATED : DONE;
}

const server = createServer({ noDelay: true }, (socket) => {
  let pending = "";
  socket.on("data", (chunk) => {
    pending += chunk.latin1Slice();
    for (;;) {
      const end = pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = pending.slice(0, end);
      const length = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      if (pending.length < length) return;
      pending = pending.slice(length);
      const [method, path] = head.split(" ", 2);
      socket.write(respond(method, path));
    }
  });
  // Clients leave as they like.
  socket.on("error", () => socket.destroy());
});

process.on("message", (/** @type {string[]} */ sandboxes) => {
  streams.clear();
  for (const sandbox of sandboxes) {
    const body = render(sandbox);
    streams.set(sandbox, Buffer.concat([stream(`content-length: ${body.length}`), body]));
  }
  process.send?.({ ready: sandboxes });
});
process.on("disconnect", () => process.exit());
server.listen(0, "127.0.0.1", () => process.send?.({ port: /** @type {import("node:net").AddressInfo} */ (server.address()).port }));
