// What must never get out: keys, URLs, paths, what an endpoint says of a failure, and a command's own secrets. The scanner
// finds them wherever they could be, every test has it between itself and the package, and an endpoint that says secrets
// wherever it can is not repeated.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { answering, CALLS } from "./support/calls.mjs";
import { chunk, data, response, startEndpoint, STREAM_HEAD } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { CreateosApiError, CreateosClient, CreateosError, createProvider, parseConfig } from "./support/package.mjs";
import { runProgram } from "./support/program.mjs";
import { scan, SECRET } from "./support/secrets.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));

describe("the scanner finds", () => {
  const error = (members) => Object.assign(new CreateosError("m"), members);
  const hidden = (target, key, value) => Object.defineProperty(target, key, { value, configurable: true });
  const deep = (value, levels) => (levels === 0 ? value : { next: deep(value, levels - 1) });

  for (const [where, planted] of Object.entries({
    "a message": new CreateosError(`m ${SECRET}`),
    "a stack": hidden(error(), "stack", `CreateosError: m\n    at ${SECRET}`),
    "a name": hidden(error(), "name", SECRET),
    "details": new CreateosError("m", { details: { operation: SECRET, tries: 0, attempts: [] } }),
    "an attempt": new CreateosError("m", { details: { operation: null, tries: 40, attempts: [...Array(200).fill({ status: 500 }), { body: SECRET }] } }),
    "output": new CreateosApiError("m", { status: 404, output: { stdout: "", stderr: "", truncated: SECRET } }),
    "a hidden property": hidden(error(), "request", { headers: { key: SECRET } }),
    "a hidden property of a hidden one": hidden(error(), "request", hidden({}, "headers", SECRET)),
    "a symbolic property": error({ [Symbol("request")]: SECRET }),
    "a hidden symbolic property": hidden(error(), Symbol("request"), SECRET),
    "the name of a symbol": error({ [Symbol(SECRET)]: 1 }),
    "a getter": Object.defineProperty(error(), "request", { get: () => SECRET }),
    "the prototype": Object.setPrototypeOf(error(), Object.create(CreateosError.prototype, { request: { value: SECRET } })),
    "a function's property": error({ retry: Object.assign(() => {}, { key: SECRET }) }),
    "a cause": new Error("m", { cause: new Error(SECRET) }),
    "a cause's cause": new Error("m", { cause: new Error("m", { cause: error({ url: SECRET }) }) }),
    "one of several errors": new AggregateError([new Error("m"), new Error(SECRET)], "m"),
    "great depth": error({ details: deep(SECRET, 50) }),
    "a map": error({ headers: new Map([["key", SECRET]]) }),
    "a map's key": error({ headers: new Map([[SECRET, 1]]) }),
    "a set": error({ headers: new Set([SECRET]) }),
    "a long text": error({ text: "x".repeat(50_000) + SECRET }),
    "a late item": error({ list: [...Array(500).fill(0), SECRET] }),
    "what is made into JSON": error({ toJSON: () => ({ key: SECRET }) }),
    "what is made into text": error({ toString: () => SECRET }),
    "what is printed": error({ [inspect.custom]: () => SECRET }),
    "what is printed otherwise": error({ headers: { key: SECRET, [inspect.custom]: () => "hidden" } }),
    "a URL": new CreateosError("m: https://api.test/v1"),
    "a path": new CreateosError("m: /sandboxes/sb_test"),
    "a query's path": new CreateosError("m: GET /v1/sandboxes"),
    "a header's name": new CreateosError("m: X-Api-Key"),
    "a result": { exitCode: 0, metadata: { processId: "p", endpoint: SECRET } },
    "a hidden property of a result": { exitCode: 0, metadata: hidden({ processId: "p" }, "endpoint", SECRET) },
    "a printed client": new (class Client { [inspect.custom]() { return SECRET; } })(),
    "text": SECRET,
  })) {
    test(where, () => assert.throws(() => scan(planted), /form of a/));
  }

  test("nothing in what holds none", () => {
    for (const value of [error(), new CreateosApiError("m", { status: 418, output: { stdout: "", stderr: "", truncated: false } }), {}, null, undefined, "text", 5]) assert.equal(scan(value), value);
  });

  test("what the package itself gives out, if that is a secret", async (t) => {
    // A lease may be called what its endpoint likes.
    const endpoint = await startEndpoint({ createSandbox: (exchange) => exchange.success({ id: `sb_${SECRET}` }), destroySandbox: (exchange) => exchange.fail(500) }, { t });
    const environment = new Environment(endpoint);
    const acquire = () => environment.provider().acquireLease({ ...environment.scope, runId: "run" });
    const found = /form of a \w+ holds s3cr3t/;
    await assert.rejects(acquire(), found, "a result");
    endpoint.handlers.exec = (exchange) => exchange.fail(500);
    await assert.rejects(acquire(), found, "an error");
    assert.throws(() => parseConfig({ ...environment.config, shape: SECRET }), found, "a configuration");
  });

  test("what a program prints, and a warning that nobody prints", async (t) => {
    const endpoint = await startEndpoint({}, { t });
    await assert.rejects(runProgram("process.stdout.write(process.env.TEST_KEY);", endpoint), /stdout holds/);
    await assert.rejects(runProgram("process.stderr.write(new URL(process.env.TEST_URL).host);", endpoint), /stderr holds/);
    await assert.rejects(runProgram("process.stderr.write(\"thread 'worker' panicked at src/lib.rs\");", endpoint), /stderr holds/);
    await assert.rejects(runProgram("process.emitWarning(process.env.TEST_KEY);", endpoint, { env: { NODE_NO_WARNINGS: "1" } }), /stderr holds/);
  });
});

test("every test has the scanner between itself and the package", () => {
  const files = readdirSync(HERE, { recursive: true }).filter((file) => /\.[cm]?js$/.test(file) && !file.includes("node_modules"));
  const own = /\b(?:from|import|require)\b.*[/"'](?:index|binding)\.js["'`]|require\b.*\.node["'`]/;
  const direct = files.filter((file) => readFileSync(path.join(HERE, file), "utf8").split("\n").some((line) => own.test(line) && !line.includes("emulator/")));
  assert.deepEqual(direct.sort(), [
    // How the package is loaded, in programs and in threads, is what these are about; program.mjs scans what they print.
    "load.test.mjs",
    "observing.test.mjs",
    "process.test.mjs",
    "results.test.mjs",
    "support/package.mjs",
    "support/program.mjs",
    "worker.test.mjs",
  ]);
});

test("whoever runs the tests looks for the tests' secret in all that they print", () => {
  assert.ok(readFileSync(path.join(HERE, "..", "scripts", "test.mjs"), "utf8").includes(SECRET));
});

const SAYS = { status: "fail", message: SECRET, data: { message: SECRET, key: `key-${SECRET}`, id: SECRET } };
const SUCCESS = {
  // Whatever a call looks for is here, and is nothing that it can use.
  id: `../${SECRET}`, process_id: `../${SECRET}`, status: SECRET, tree_exited: SECRET, result: SECRET, processes: [{ process_id: `../${SECRET}` }],
};
const json = (body) => Buffer.from(JSON.stringify(body));
const frames = (...lines) => (exchange) => exchange.raw(Buffer.concat([STREAM_HEAD, chunk(lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""))])).then(() => exchange.fin());

/** Answers that say secrets wherever an answer can. */
const ANSWERS = {
  ...Object.fromEntries([400, 401, 404, 409, 410, 429, 500, 503].map((status) => [`a ${status}`, (exchange) => exchange.answer(status, SAYS, { "x-reason": SECRET, "retry-after": "0" })])),
  "a reason phrase": (exchange) => exchange.raw(`HTTP/1.1 418 ${SECRET}\r\ncontent-length: 0\r\nretry-after: ${SECRET}\r\n\r\n`),
  "a redirect": (exchange) => exchange.answer(302, SAYS, { location: `http://127.0.0.1:1/${SECRET}` }),
  "no JSON": (exchange) => exchange.answer(200, `<html>${SECRET}`),
  "no success": (exchange) => exchange.answer(200, SAYS),
  "data that is text": (exchange) => exchange.answer(200, { status: "success", data: SECRET }),
  "data that is unusable": (exchange) => exchange.answer(200, { status: "success", data: SUCCESS }),
  "data that is compressed": (exchange) => exchange.answer(200, SAYS, { "content-encoding": SECRET }),
  "half of an answer": (exchange) => exchange.raw(response(200, { "content-length": 1000 }, json(SAYS))).then(() => exchange.reset()),
  "no HTTP": (exchange) => exchange.raw(`${SECRET}\r\n\r\n`).then(() => exchange.fin()),
  "chunks that are none": (exchange) => exchange.raw(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${SECRET}\r\n`),
  "a header that is none": (exchange) => exchange.raw(`HTTP/1.1 200 OK\r\n${SECRET}\r\n\r\n`).then(() => exchange.fin()),
  "an error event": frames(data(1, "x"), { type: "error", error: SECRET, message: SECRET }),
  "an unknown event": frames({ type: SECRET }),
  "a frame that is none": frames(SECRET),
  "output that is none": frames({ type: "data", seq: 1, stream: SECRET, data_base64: SECRET }),
  "base64 that is none": frames({ type: "data", seq: 1, stream: "stdout", data_base64: `${SECRET}!` }),
  "a number that is none": frames({ ...data(1, "x"), seq: SECRET }),
  "an exit that is none": frames({ type: "exit", exit_code: SECRET, signal: SECRET }),
};

describe("an endpoint that answers with secrets is not repeated", { concurrency: true }, () => {
  for (const [route, { run }] of Object.entries(CALLS)) {
    test(`in the call ${route}`, async (t) => {
      let failed = 0;
      for (const [what, answer] of Object.entries(ANSWERS)) {
        const endpoint = await startEndpoint(answering(route, answer), { t });
        // Not all of it is a failure: a sandbox whose state never changes is waited for until then.
        const environment = new Environment(endpoint, { timeoutMs: 1_000 });
        const provider = environment.provider({ reconnect: { attempts: 1, delayMs: 0 }, cleanupTimeoutMs: 300 });
        // What it resolves to, or is rejected with, has been scanned; a scanner that found something is no error of the package's.
        await run(environment, provider).catch((error) => {
          assert.ok(error instanceof CreateosError, `${what}: ${error.message}`);
          failed++;
        });
        assert.ok(endpoint.of(route).length > 0, what);
        scan(await provider.health());
        scan(provider);
      }
      assert.ok(failed >= 10, `${failed} of them failed`);
    });
  }
});

describe("what a caller passes is not repeated", () => {
  const refused = (t) => startEndpoint({ create: (exchange) => exchange.fail(400), upload: (exchange) => exchange.fail(400) }, { t });

  test("a command's own secrets", async (t) => {
    const environment = new Environment(await refused(t));
    for (const command of [
      { command: SECRET }, { args: [SECRET] }, { cwd: SECRET }, { stdin: SECRET }, { env: { NAME: SECRET } }, { env: { [SECRET]: "" } },
      { command: `${SECRET}\0` }, { args: [`${SECRET}\0`] }, { cwd: `${SECRET}\0` }, { env: { NAME: `${SECRET}\0` } }, { env: { [`${SECRET}=`]: "" } },
      { env: { NAME: { [SECRET]: SECRET } } }, { args: [SECRET.repeat(30_000)] }, { stdin: { SECRET } }, { timeoutMs: SECRET },
      { lease: { providerLeaseId: `../${SECRET}`, metadata: environment.metadata } }, { lease: { providerLeaseId: "sb_test", metadata: { apiUrl: SECRET } } },
    ]) {
      for (const call of [() => environment.run(command), () => environment.provider().execute(environment.params(command))]) {
        await call().then((result) => assert.equal(result, undefined), (error) => assert.ok(error instanceof CreateosError, error.message));
      }
    }
  });

  test("settings that are refused", () => {
    for (const config of [
      { apiUrl: `https://user:${SECRET}@api.test` }, { apiUrl: `http://api.test/${SECRET}` }, { apiUrl: SECRET }, { apiUrl: `https://api.test?key=${SECRET}` },
      { apiKey: `${SECRET}\r\n${SECRET}` }, { apiKey: `${SECRET}\0${SECRET}` }, { apiKey: { SECRET } }, { shape: [SECRET] }, { timeoutMs: SECRET }, { reuseLease: SECRET }, { rootfs: { SECRET } },
    ]) {
      assert.throws(() => new CreateosClient({ apiUrl: "https://api.test", apiKey: "key", shape: "shape", ...config }), CreateosError, inspect(config));
    }
    for (const options of [SECRET, { pacing: SECRET }, { reconnect: { attempts: SECRET } }, { idleTimeoutMs: SECRET }, { stageScript: SECRET }]) {
      assert.throws(() => createProvider(options), RangeError, inspect(options));
    }
  });

  test("the key and the URL of a client and of its configuration", () => {
    const config = parseConfig({ apiUrl: "https://hidden.test", apiKey: `key-${SECRET}`, shape: "shape" });
    for (const value of [config, { nested: [config] }, new CreateosClient(config), createProvider()]) scan(value);
    assert.equal(new CreateosClient(config).config.apiKey, `key-${SECRET}`, "it is there to be used");
  });
});
