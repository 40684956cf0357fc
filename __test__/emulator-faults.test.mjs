// What the emulator does on request: faults by hooks, the rate limit, and the record of requests.
import assert from "node:assert/strict";
import { test } from "node:test";
import { read, startFor } from "./support/emulator.mjs";

/** A hook that applies to one route. */
const on = (route, action) => ({ request: (request) => (request.route === route ? (typeof action === "function" ? action(request) : action) : undefined) });

const failure = (promise) => promise.then(() => assert.fail("it was answered"), (error) => error.code);

test("a hook answers with a status, headers and a body instead of the call", async (t) => {
  const client = await startFor(t, {
    hooks: on("createSandbox", ({ attempt }) => [
      { status: 503 },
      { status: 429, headers: { "retry-after": "7" }, body: "slow down" },
      { status: 200, body: { status: "success", data: { id: "sb_hook" } } },
    ][attempt - 1]),
  });
  const create = () => client.call("POST", "/sandboxes", { shape: "s" });
  assert.equal((await create()).status, 503);
  const limited = await create();
  assert.deepEqual([limited.status, limited.headers["retry-after"], limited.bytes.toString()], [429, "7", "slow down"]);
  assert.equal((await create()).data.id, "sb_hook");
  assert.equal((await client.call("GET", "/sandboxes")).data.pagination.total, 0);
  assert.match((await create()).data.id, /^sb_/);
});

test("a hook is told what came in", async (t) => {
  const seen = [];
  const client = await startFor(t, { hooks: { request: async (request) => void seen.push(request) } });
  const sandbox = await client.sandbox({ name: "x" });
  await sandbox.call("GET", "/processes/p/connect?after=4&after=5");
  const [create] = seen;
  assert.deepEqual([create.route, create.method, create.path, create.attempt], ["createSandbox", "POST", "/v1/sandboxes", 1]);
  assert.equal(create.headers["x-api-key"], client.key);
  assert.equal(JSON.parse(create.body).name, "x");
  const connect = seen.at(-1);
  assert.deepEqual([connect.route, connect.query], ["connect", { after: "5" }]);
});

test("a hook resets a request before it is carried out, or loses the answer after it was", async (t) => {
  const client = await startFor(t, { hooks: on("createSandbox", ({ attempt }) => (attempt === 1 ? { reset: true } : { lost: true })) });
  const create = () => failure(client.call("POST", "/sandboxes", { shape: "s" }));
  const count = async () => (await client.call("GET", "/sandboxes")).data.pagination.total;
  assert.equal(await create(), "ECONNRESET");
  assert.equal(await count(), 0);
  assert.equal(await create(), "ECONNRESET");
  assert.equal(await count(), 1);
});

test("a hook delays a request on the emulator's clock, and leaves one without an answer until the end", async (t) => {
  const client = await startFor(t, {
    clock: { speed: 1000 },
    hooks: { request: ({ query }) => (query.hang ? { hang: true } : { delayMs: 10_000 }) },
  });
  assert.equal((await client.call("GET", "/sandboxes")).status, 200);
  const hanging = failure(client.call("GET", "/sandboxes?hang=1"));
  await client.emulator.waitForRequest("listSandboxes", 2);
  await client.emulator.close();
  assert.equal(await hanging, "ECONNRESET");
});

for (const how of ["reset", "end"]) {
  test(`a hook cuts a response after any number of bytes, by ${how}`, async (t) => {
    let cutAfter = Infinity;
    const client = await startFor(t, { hooks: on("connect", () => (cutAfter === Infinity ? {} : { cutAfter, how })) });
    const sandbox = await client.sandbox();
    const process = await sandbox.start("echo one; echo two >&2; exit 3");
    await process.exited();
    const connect = () => client.request("GET", `/sandboxes/${sandbox.id}/processes/${process.id}/connect`);
    const whole = await read(await connect());
    for (cutAfter = 0; cutAfter < whole.length; cutAfter += 7) {
      const response = await connect();
      let bytes = Buffer.alloc(0), error = null;
      try {
        for await (const chunk of response) bytes = Buffer.concat([bytes, chunk]);
      } catch (caught) {
        error = caught;
      }
      assert.ok(bytes.equals(whole.subarray(0, cutAfter)), `${cutAfter}: ${bytes}`);
      assert.equal(error?.code, how === "reset" ? "ECONNRESET" : undefined);
    }
    cutAfter = whole.length + 1;
    assert.ok((await read(await connect())).equals(whole));
  });
}

test("a hook corrupts one frame of a stream", async (t) => {
  let lines = 0;
  const client = await startFor(t, {
    hooks: on("connect", { transform: (line) => (++lines === 2 ? line.toString().replace('"seq":2', '"seq":9') : line) }),
  });
  const sandbox = await client.sandbox();
  const process = await sandbox.start("echo one; read go; echo two");
  const output = await process.connect();
  assert.equal((await output.next()).seq, 1);
  await process.input("\n");
  assert.equal((await output.next()).seq, 9);
  assert.equal((await output.next()).type, "exit");
});

test("a hook changes and drops the bytes of other answers, too", async (t) => {
  const client = await startFor(t, { hooks: on("listSandboxes", ({ attempt }) => ({ transform: () => (attempt === 1 ? "<html>" : undefined) })) });
  assert.equal((await client.call("GET", "/sandboxes")).bytes.toString(), "<html>");
  assert.equal((await client.call("GET", "/sandboxes")).bytes.length, 0);
});

test("the rate limit is off unless it is asked for", async (t) => {
  const client = await startFor(t);
  for (let count = 0; count < 400; count++) assert.equal((await client.call("GET", "/sandboxes")).status, 200);
});

test("over the rate limit the answer is 429 with the seconds to wait, until the window has moved on", async (t) => {
  let now = 1_000_000;
  const client = await startFor(t, { rateLimit: { requests: 3, perMs: 60_000 }, clock: { now: () => now, setTimeout, clearTimeout } });
  const ask = (key = client.key) => client.call("GET", "/sandboxes", undefined, { headers: { "x-api-key": key } });
  assert.equal((await ask()).status, 200);
  now += 10_000;
  assert.equal((await ask("wrong")).status, 401);
  assert.equal((await ask()).status, 200);
  now += 10_500;
  const limited = await ask();
  assert.deepEqual([limited.status, limited.headers["retry-after"], limited.envelope.status], [429, "40", "fail"]);
  now += 39_500;
  assert.equal((await ask()).status, 200);
  assert.equal((await ask()).headers["retry-after"], "10");
});

test("options that make no sense are refused at the start", async () => {
  const { startEmulator } = await import("../emulator/index.mjs");
  for (const options of [{ rateLimit: { requests: 0, perMs: 1 } }, { rateLimit: { requests: 1 } }, { clock: {} }, { clock: { speed: 0 } }, { clock: { now: Date.now } }]) {
    await assert.rejects(startEmulator(options), TypeError, JSON.stringify(options));
  }
});

test("requests are recorded in order, uploads as they pass, bodies and their number bounded", async (t) => {
  const client = await startFor(t, { keptRequests: 5 });
  const sandbox = await client.sandbox();
  await sandbox.call("PUT", "/files?path=/tmp/x", undefined, { raw: Buffer.alloc(200_000, "y") });
  const { requests } = client.emulator;
  const upload = requests.at(-1);
  assert.deepEqual([upload.route, upload.method, upload.body.length], ["upload", "PUT", 65536]);
  for (let count = 0; count < 20; count++) await client.call("GET", "/nothing");
  assert.ok(requests.length >= 5 && requests.length < 10);
  assert.deepEqual([requests.at(-1).route, requests.at(-1).attempt], ["unknown", 20]);
  await assert.rejects(client.emulator.waitForRequest("pause", 1, 1), /fewer than 1 pause requests/);
});

test("a body that is too large is refused, and the connection survives", async (t) => {
  const client = await startFor(t);
  const sandbox = await client.sandbox();
  const { status } = await sandbox.call("POST", "/exec", undefined, { raw: Buffer.alloc(17 * 1024 * 1024, " ") });
  assert.equal(status, 413);
});
