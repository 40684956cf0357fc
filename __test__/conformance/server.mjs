// A scripted CreateOS endpoint: it plays back exactly the responses that a
// vector lists, byte for byte, and records every request that it received.
import http from "node:http";

const ROUTES = [
  ["createSandbox", "POST", /^\/v1\/sandboxes$/],
  ["getSandbox", "GET", /^\/v1\/sandboxes\/[^/]+$/],
  ["destroySandbox", "DELETE", /^\/v1\/sandboxes\/[^/]+$/],
  ["pause", "POST", /\/pause$/],
  ["resume", "POST", /\/resume$/],
  ["exec", "POST", /\/exec$/],
  ["upload", "PUT", /\/files$/],
  ["download", "GET", /\/files$/],
  ["listProcesses", "GET", /\/processes$/],
  ["create", "POST", /\/processes$/],
  ["stdinClose", "POST", /\/stdin\/close$/],
  ["connect", "GET", /\/connect$/],
  ["wait", "GET", /\/wait$/],
  ["terminate", "DELETE", /\/processes\/[^/]+$/],
];

const success = (data = {}) => ({ status: 200, json: { status: "success", data } });

/** What a healthy endpoint answers where a vector says nothing of a route. */
export const DEFAULTS = {
  createSandbox: [success({ id: "sb_test" })],
  getSandbox: [success({ id: "sb_test", status: "running" })],
  destroySandbox: [success({ id: "sb_test" })],
  pause: [success({ status: "pausing" })],
  resume: [success({ status: "resuming" })],
  exec: [success({ result: { exit_code: 0, stdout: "", stderr: "" } })],
  upload: [success()],
  download: [{ status: 200, body: [] }],
  listProcesses: [success({ processes: [] })],
  create: [success({ process_id: "proc_test" })],
  stdinClose: [success()],
  connect: [{ status: 200, body: [{ frames: [{ type: "exit", exit_code: 0 }] }] }],
  wait: [{ status: 404, json: { status: "fail", data: "no such process" } }],
  terminate: [success({ tree_exited: true })],
};

const b64 = (bytes) => Buffer.from(bytes).toString("base64");

/** Expands the short forms of a frame: {out}, {err} and {bytes} become data frames. */
export function frame(f) {
  if (f === null || typeof f !== "object" || Array.isArray(f)) return f;
  const { out, err, bytes, ...rest } = f;
  if (out !== undefined) return { type: "data", stream: "stdout", data_base64: b64(out), ...rest };
  if (err !== undefined) return { type: "data", stream: "stderr", data_base64: b64(err), ...rest };
  if (bytes !== undefined) return { type: "data", stream: "stdout", data_base64: b64(bytes), ...rest };
  return f;
}

/** {gen: {frames, size, from, stream, text}}: a run of data frames, `text` repeated to `size` bytes each. */
function generate({ frames, size, from = 1, stream = "stdout", text }) {
  const lines = [];
  for (let i = 0; i < frames; i++) {
    const seq = from + i;
    const unit = Buffer.from(text ?? `line ${seq} `);
    const payload = Buffer.alloc(size);
    for (let at = 0; at < size; at += unit.length) unit.copy(payload, at, 0, Math.min(unit.length, size - at));
    lines.push(JSON.stringify({ type: "data", seq, stream, data_base64: payload.toString("base64") }));
  }
  return Buffer.from(lines.join("\n") + "\n");
}

/** {exitLine: n, end}: an exit frame of exactly n bytes, then `end`. */
function exitLine(length, end = "\n") {
  const head = '{"type":"exit","exit_code":0,"pad":"', tail = '"}';
  return Buffer.from(head + "x".repeat(length - head.length - tail.length) + tail + end);
}

const padTo512 = (bytes) => Buffer.concat([bytes, Buffer.alloc((512 - bytes.length % 512) % 512)]);

/** A ustar archive of exactly these entries, however unsafe: {path, text|link|hardlink|dir|type, mode, size}. */
export function makeTar(entries, { truncate } = {}) {
  const blocks = entries.map((e) => {
    const body = Buffer.from(e.text ?? "");
    const header = Buffer.alloc(512);
    const octal = (value, at, length) => header.write(value.toString(8).padStart(length - 1, "0") + "\0", at, "latin1");
    header.write(e.path, 0, 100, "utf8");
    octal(e.mode ?? (e.dir ? 0o755 : 0o644), 100, 8); octal(0, 108, 8); octal(0, 116, 8);
    octal(e.size ?? body.length, 124, 12); octal(0, 136, 12);
    header.write("        ", 148, "latin1");
    header.write(e.type ?? (e.dir ? "5" : e.link !== undefined ? "2" : e.hardlink !== undefined ? "1" : "0"), 156, "latin1");
    header.write(e.link ?? e.hardlink ?? "", 157, 100, "utf8");
    header.write("ustar\x0000", 257, "latin1");
    let sum = 0;
    for (const byte of header) sum += byte;
    header.write(sum.toString(8).padStart(6, "0") + "\0 ", 148, "latin1");
    return Buffer.concat([header, padTo512(body)]);
  });
  const whole = Buffer.concat([...blocks, Buffer.alloc(1024)]);
  return truncate === undefined ? whole : whole.subarray(0, truncate);
}

/** The entries of a tar archive, sorted; null where the bytes are none. Reads ustar, GNU long names and PAX paths. */
export function listTar(bytes) {
  if (bytes.length < 512 || bytes.toString("latin1", 257, 262) !== "ustar") return null;
  const text = (at, length) => { const raw = bytes.subarray(at, at + length); const end = raw.indexOf(0); return raw.toString("utf8", 0, end < 0 ? length : end); };
  const entries = [];
  let long = {};
  for (let at = 0; at + 512 <= bytes.length && bytes[at] !== 0;) {
    const size = parseInt(text(at + 124, 12).trim() || "0", 8), type = String.fromCharCode(bytes[at + 156]);
    const body = bytes.subarray(at + 512, at + 512 + size);
    const prefix = text(at + 345, 155);
    if (type === "x") for (const m of body.toString("utf8").matchAll(/\d+ (path|linkpath)=(.*)\n/g)) long[m[1]] = m[2];
    else if (type === "L" || type === "K") long[type === "L" ? "path" : "linkpath"] = body.toString("utf8").replace(/\0+$/, "");
    else if (type !== "g") {
      const name = (long.path ?? (prefix ? `${prefix}/` : "") + text(at, 100)).replace(/^\.\//, "").replace(/\/$/, "");
      const mode = parseInt(text(at + 100, 8), 8) & 0o777;
      if (name && name !== ".") entries.push({ path: name, ...(type === "5" ? { dir: true } : type === "2" ? { link: long.linkpath ?? text(at + 157, 100) }
        : type === "1" ? { hardlink: (long.linkpath ?? text(at + 157, 100)).replace(/^\.\//, "") } : { mode, size, text: body.toString("latin1").slice(0, 64) }) });
      long = {};
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return entries.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function bytesOf(op) {
  if (op.tar) return makeTar(op.tar, op);
  if (op.exitLine) return exitLine(op.exitLine, op.end);
  if (op.frames) return Buffer.from(op.frames.map((f) => JSON.stringify(frame(f)) + "\n").join(""));
  if (op.text !== undefined) return Buffer.from(op.text);
  if (op.base64 !== undefined) return Buffer.from(op.base64, "base64");
  if (op.pad !== undefined) return Buffer.alloc(op.pad, op.with ?? "x");
  if (op.gen) return generate(op.gen);
  return null;
}

/** An answer that nobody waits for any more keeps no process alive. */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());
const write = (res, bytes) => new Promise((resolve) => {
  if (res.destroyed) return resolve();
  if (res.write(bytes)) return resolve();
  const done = () => { res.off("drain", done); res.off("close", done); resolve(); };
  res.on("drain", done).on("close", done);
});

async function play(response, req, res) {
  if (response.refuse) { req.socket.destroy(); return; }
  if (response.wait) await sleep(response.wait);
  const headers = { ...(response.headers ?? {}) };
  if (response.json !== undefined) {
    res.writeHead(response.status ?? 200, { "content-type": "application/json", ...headers });
    res.end(JSON.stringify(response.json));
    return;
  }
  res.writeHead(response.status ?? 200, { "content-type": "application/x-ndjson", ...headers });
  res.flushHeaders();
  for (const op of response.body ?? []) {
    if (res.destroyed) return;
    if (op.sleep) { await sleep(op.sleep); continue; }
    if (op.reset) { await sleep(20); req.socket.destroy(); return; }
    if (op.hang) return;
    const bytes = bytesOf(op);
    if (!bytes) throw new Error(`unknown body operation ${JSON.stringify(op)}`);
    const step = op.every ?? bytes.length;
    for (let at = 0; at < bytes.length; at += step) {
      await write(res, bytes.subarray(at, at + step));
      if (op.every) await sleep(op.pause ?? 0);
    }
  }
  res.end();
}

/** Starts the endpoint on loopback; answers of one route are used in order, the last one again and again. */
export async function startServer(routes = {}) {
  const requests = [];
  const waiters = [];
  const used = {};
  const server = http.createServer((req, res) => {
    const url = new URL(req.url, "http://loopback");
    const chunks = [];
    req.on("data", (chunk) => chunks.push(chunk));
    req.on("error", () => {});
    res.on("error", () => {});
    req.on("end", () => {
      const route = ROUTES.find(([, method, pattern]) => method === req.method && pattern.test(url.pathname))?.[0];
      const body = Buffer.concat(chunks);
      const seen = { route: route ?? "unknown", method: req.method, path: req.url, headers: req.headers, body };
      requests.push(seen);
      for (const waiter of waiters.splice(0)) waiter();
      if (!route) { res.writeHead(418).end(); return; }
      const script = routes[route] ?? DEFAULTS[route];
      const index = Math.min(used[route] ?? 0, script.length - 1);
      used[route] = (used[route] ?? 0) + 1;
      play(script[index], req, res).catch((error) => { console.error(error); res.destroy(); });
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    async waitFor(route, count = 1, ms = 5_000) {
      const deadline = Date.now() + ms;
      while (requests.filter((r) => r.route === route).length < count) {
        if (Date.now() > deadline) throw new Error(`no ${route} request within ${ms} ms`);
        await Promise.race([new Promise((resolve) => waiters.push(resolve)), sleep(50)]);
      }
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
