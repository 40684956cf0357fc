// Bad input of every kind: the contract's message, as a rejection, before any request.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { CreateosClient, CreateosProvider, createProvider, execute, parseConfig, release, shellQuote, unwatched as addon } from "./support/package.mjs";

const PARAMETERS = "Invalid CreateOS command parameters.";
const COMMAND = "A sandbox command is required.";
const VARIABLE = "Invalid sandbox environment variable.";
const NUL = "Sandbox command values cannot contain NUL.";
const TIMEOUT = "Invalid CreateOS command timeout.";
const ID = "CreateOS returned an invalid resource ID.";
const FOREIGN = "CreateOS execution requires a lease from this environment.";
const NOT_MINE = "CreateOS lease does not belong to this environment.";
const KEY = "CreateOS requires an API key in the environment config or CREATEOS_API_KEY.";

/** Values that are neither text nor absent. */
const NO_TEXTS = [0, 1, true, false, {}, [], ["x"], () => "x", Symbol("x"), 1n, new Date(), new String("x")];

describe("bad input", async () => {
  const endpoint = await startEndpoint();
  const environment = new Environment(endpoint);
  const client = environment.client();
  const provider = environment.provider();

  /** Both ways to run a command refuse it alike, as a rejection, without a request. */
  async function refused(params, message, foreign = message) {
    const before = endpoint.requests.length;
    for (const [call, expected] of [[() => execute(client, params), message], [() => provider.execute(params), foreign]]) {
      const promise = call();
      assert.ok(promise instanceof Promise, "it is a rejection, not an exception");
      await assert.rejects(promise, (error) => {
        assert.deepEqual([error.constructor.name, error.message], ["CreateosError", expected]);
        assert.deepEqual(error.details, { operation: null, tries: 0, attempts: [] });
        assert.ok(!("output" in error));
        return true;
      });
    }
    assert.equal(endpoint.requests.length, before, "no request was made");
  }

  const named = (value) => (typeof value === "symbol" || typeof value === "function" ? String(value) : typeof value === "bigint" ? `${value}n` : `${Object.prototype.toString.call(value)} ${JSON.stringify(value)}`);

  for (const params of [undefined, null, 1, "x", true, [], () => {}, Symbol("x")]) {
    test(`parameters that are ${String(params) || "an array"} are refused`, () => refused(params, PARAMETERS));
  }

  for (const lease of [undefined, null, "sb_test", 1, []]) {
    test(`a lease that is ${JSON.stringify(lease)} is refused`, () => refused({ ...environment.params(), lease }, PARAMETERS));
  }

  for (const command of [undefined, null, ""]) {
    test(`a command that is ${JSON.stringify(command)} is refused`, () => refused({ ...environment.params(), command }, COMMAND));
  }

  for (const value of NO_TEXTS) {
    test(`${named(value)} is neither a command nor an argument, directory or standard input`, async () => {
      for (const name of ["command", "cwd", "stdin"]) await refused({ ...environment.params(), [name]: value }, PARAMETERS);
      await refused(environment.params({ args: ["a", value] }), PARAMETERS);
    });
    test(`${named(value)} is no value of an environment variable`, () => refused(environment.params({ env: { GOOD: "x", BAD: value } }), VARIABLE));
  }

  for (const value of [null, undefined]) {
    test(`${value} is no argument and no value of an environment variable`, async () => {
      await refused(environment.params({ args: ["a", value] }), PARAMETERS);
      await refused(environment.params({ env: { BAD: value } }), VARIABLE);
    });
  }

  test("a hole in the arguments is refused", () => refused(environment.params({ args: ["a", , "b"] }), PARAMETERS)); // eslint-disable-line no-sparse-arrays

  for (const args of ["ls", 1, {}, true, { length: 1, 0: "x" }, new Set(["x"])]) {
    test(`arguments that are ${named(args)} are refused`, () => refused(environment.params({ args }), PARAMETERS));
  }

  for (const env of ["A=1", 1, true, ["A=1"], []]) {
    test(`an environment that is ${named(env)} is refused`, () => refused(environment.params({ env }), PARAMETERS));
  }

  for (const name of ["", " ", "A B", "A-B", "1A", "A=B", "A\n", "Ä", "A.B", "A'", "$(id)", "A\0", "\ud800", "constructor()", "__proto__ "]) {
    test(`${JSON.stringify(name)} is no name of an environment variable`, () => refused(environment.params({ env: { [name]: "x" } }), VARIABLE));
  }

  for (const [what, command] of [
    ["the command", { command: "a\0b" }], ["an argument", { args: ["ok", "\0"] }], ["the directory", { cwd: "/tmp\0" }],
    ["a variable", { env: { A: "x\0y" } }], ["the command's end", { command: "ls\0" }],
  ]) {
    test(`NUL in ${what} is refused`, () => refused(environment.params(command), NUL));
  }

  for (const timeoutMs of [0, -1, 0.5, 1.5, NaN, Infinity, -Infinity, 86_400_001, 1e300, Number.MAX_SAFE_INTEGER, "5", "", true, {}, [5], 5n]) {
    test(`a timeout of ${named(timeoutMs)} is refused`, () => refused(environment.params({ timeoutMs }), TIMEOUT));
  }

  test("with a signal the module's timeout does not apply, hence is not looked at", async () => {
    const { exitCode } = await execute(client, environment.params({ timeoutMs: -1 }), new AbortController().signal);
    assert.equal(exitCode, 0);
    await assert.rejects(provider.execute(environment.params({ timeoutMs: -1 }), null, new AbortController().signal), { message: TIMEOUT });
  });

  for (const providerLeaseId of ["../../etc", "a/b", "a b", "a.b", "ä", "a\n", "a\0", "%2e", "x".repeat(201), "?", "#", 5, {}, true, ["sb_test"]]) {
    test(`${named(providerLeaseId).slice(0, 60)} is no lease ID`, async () => {
      await refused({ ...environment.params(), lease: { providerLeaseId, metadata: environment.metadata } }, ID);
      const before = endpoint.requests.length;
      await assert.rejects(release({ ...environment.held(), providerLeaseId }, true), { name: "CreateosError", message: ID });
      await assert.rejects(provider.release({ ...environment.held(), providerLeaseId }, false), { name: "CreateosError", message: ID });
      assert.equal(endpoint.requests.length, before);
    });
  }

  for (const providerLeaseId of [null, undefined, ""]) {
    test(`without a lease ID (${JSON.stringify(providerLeaseId)}) there is nothing to run on and nothing to release`, async () => {
      await refused({ ...environment.params(), lease: { providerLeaseId, metadata: environment.metadata } }, ID, FOREIGN);
      const before = endpoint.requests.length;
      assert.equal(await release({ ...environment.held(), providerLeaseId }, true), undefined);
      assert.equal(await provider.release({ ...environment.held(), providerLeaseId }, false), undefined);
      assert.equal(endpoint.requests.length, before);
    });
  }

  test("the longest lease ID is one", async () => {
    const lease = `${"aZ09_-".repeat(33)}xy`;
    assert.equal(lease.length, 200);
    assert.equal((await new Environment(endpoint, {}, lease).run()).exitCode, 0);
  });

  for (const metadata of [
    undefined, null, "x", [], {}, { provider: "createos" }, { ...environment.metadata, provider: "other" }, { ...environment.metadata, companyId: "other" },
    { ...environment.metadata, environmentId: "other" }, { ...environment.metadata, apiUrl: "https://other.test" }, { ...environment.metadata, apiUrl: `${endpoint.url}/` },
    { ...environment.metadata, companyId: 5 }, { ...environment.metadata, apiUrl: undefined },
  ]) {
    test(`a lease with metadata ${JSON.stringify(metadata)?.replace(/127[^"]*/, "…")} is foreign to a provider`, async () => {
      const before = endpoint.requests.length;
      await assert.rejects(provider.execute({ ...environment.params(), lease: { providerLeaseId: "sb_test", metadata } }), { name: "CreateosError", message: FOREIGN });
      await assert.rejects(provider.release({ ...environment.held(), leaseMetadata: metadata }, true), { name: "CreateosError", message: NOT_MINE });
      await assert.rejects(release({ ...environment.held(), leaseMetadata: metadata }, true), { name: "CreateosError", message: NOT_MINE });
      assert.equal(endpoint.requests.length, before);
    });
  }

  test("refusals of a provider are told in the order foreign, key, closing, timeout, ID, command, environment, NUL", async () => {
    const bad = (over) => ({
      ...environment.params({ command: "", env: { "1": "\0" }, args: ["\0"], timeoutMs: 0 }), lease: { providerLeaseId: "a/b", metadata: environment.metadata }, ...over,
    });
    const keyless = { ...environment.config, apiKey: undefined };
    const steps = [
      [{ companyId: "other", config: keyless }, FOREIGN],
      [{ config: keyless }, KEY],
      [{}, TIMEOUT],
      [{ timeoutMs: 1 }, ID],
      [{ timeoutMs: 1, lease: environment.params().lease }, COMMAND],
      [{ timeoutMs: 1, lease: environment.params().lease, command: "\0" }, VARIABLE],
      [{ timeoutMs: 1, lease: environment.params().lease, command: "x", env: { A: "x" } }, NUL],
    ];
    for (const [over, message] of steps) await assert.rejects(provider.execute(bad(over)), { message });
    const shut = environment.provider();
    await shut.shutdown();
    await assert.rejects(shut.execute(bad({})), { message: "CreateOS lease is closing or requires cleanup." });
    await assert.rejects(shut.execute(bad({ companyId: "other" })), { message: FOREIGN });
  });

  for (const value of [undefined, null, 1, "x", {}, [], () => {}, Object.create(CreateosClient.prototype)]) {
    test(`${named(value)} is no client`, () => assert.rejects(execute(value, environment.params()), { name: "CreateosError", message: PARAMETERS }));
  }

  for (const signal of [1, "x", true, {}, [], new AbortController(), { aborted: false, addEventListener() {} }]) {
    test(`${named(signal)} is no signal`, async () => {
      await assert.rejects(execute(client, environment.params(), signal), { name: "CreateosError", message: PARAMETERS });
      await assert.rejects(provider.execute(environment.params(), null, signal), { name: "CreateosError", message: PARAMETERS });
    });
  }

  for (const log of [1, "x", true, {}, []]) {
    test(`${named(log)} is no log function`, async () => {
      await assert.rejects(execute(client, environment.params(), null, log), { name: "CreateosError", message: PARAMETERS });
      await assert.rejects(provider.execute(environment.params(), log), { name: "CreateosError", message: PARAMETERS });
    });
  }

  for (const params of [undefined, null, 1, "x", [], () => {}]) {
    test(`release of ${named(params)} is refused`, async () => {
      await assert.rejects(release(params, true), { name: "CreateosError", message: PARAMETERS });
      await assert.rejects(provider.release(params, true), { name: "CreateosError", message: PARAMETERS });
    });
  }

  test("a getter that throws is the caller's own exception, as a rejection", async () => {
    const own = new TypeError("mine");
    const params = Object.defineProperty({ ...environment.params() }, "command", { get() { throw own; } });
    await assert.rejects(execute(client, params), (error) => error === own);
  });

  test("unknown members and values without effect are accepted", async () => {
    const result = await execute(client, environment.params({ bypassSession: true, unknown: Symbol("x"), issueId: null, args: undefined, env: null, cwd: "", stdin: undefined, timeoutMs: null }));
    assert.equal(result.exitCode, 0);
  });

  test("what a call was given can be changed afterwards without effect", async () => {
    const params = environment.params({ command: "first", args: ["a"], env: { A: "1" } });
    const running = execute(client, params);
    params.command = "second";
    params.args.push("b");
    params.env.A = "2";
    await running;
    assert.match(endpoint.requests.findLast(({ route }) => route === "create").body.toString(), /A='1' 'first' 'a'"/);
  });

  for (const value of [...NO_TEXTS, null, undefined]) {
    test(`${named(value)} cannot be quoted`, () => assert.throws(() => shellQuote(value), { name: "CreateosError", message: PARAMETERS }));
  }
  test("NUL cannot be quoted", () => assert.throws(() => shellQuote("a\0"), { name: "CreateosError", message: NUL }));
  test("quoting puts everything between single quotes", () => {
    assert.equal(shellQuote("it's $x"), `'it'"'"'s $x'`);
    assert.equal(shellQuote(""), "''");
    assert.equal(shellQuote("\ud800"), "'\ufffd'");
  });

  for (const raw of [undefined, null, 1, "x", [], {}]) {
    test(`settings that are ${named(raw)} lack a URL`, () => assert.throws(() => parseConfig(raw), { name: "CreateosError", message: "CreateOS requires an API URL." }));
  }
  for (const [setting, values, message] of [
    ["apiUrl", [1, true, {}, " ", "a\0b"], "apiUrl must be a non-empty string."],
    ["apiKey", [1, true, {}, " ", "a\0b"], "apiKey must be a non-empty string."],
    ["shape", [1, true, {}, "", "a\0b"], "shape must be a non-empty string."],
    ["rootfs", [1, true, {}, "", "a\0b"], "rootfs must be a non-empty string."],
    ["region", [1, true, {}, "", "a\0b"], "region must be a non-empty string."],
    ["timeoutMs", [0, -1, 1.5, NaN, Infinity, 86_400_001, "5", true, {}, []], "timeoutMs must be an integer between 1 and 86400000."],
    ["reuseLease", [0, 1, "true", {}, []], "reuseLease must be a boolean."],
    ["apiUrl", ["not a url"], "CreateOS API URL is invalid."],
    ["apiUrl", ["http://a.test", "https://u:p@a.test", "https://a.test/x", "https://a.test/?q", "ftp://a.test", "http://127.0.0.2"].filter((url) => url !== "https://a.test/?q"),
      "CreateOS API URL must be an HTTPS origin (optionally ending in /v1); HTTP is allowed on loopback only."],
  ]) {
    for (const value of values) {
      test(`${setting} cannot be ${named(value)}`, () => {
        assert.throws(() => parseConfig({ apiUrl: "https://a.test", shape: "s", [setting]: value }), { name: "CreateosError", message });
        assert.throws(() => new CreateosClient({ apiUrl: "https://a.test", apiKey: "k", shape: "s", [setting]: value }), { name: "CreateosError", message });
      });
    }
  }

  for (const apiKey of [null, undefined, "a\rb", "a\nb"]) {
    test(`an API key that is ${JSON.stringify(apiKey)} is none`, (t) => {
      const before = process.env.CREATEOS_API_KEY;
      delete process.env.CREATEOS_API_KEY;
      t.after(() => before !== undefined && (process.env.CREATEOS_API_KEY = before));
      assert.throws(() => new CreateosClient({ ...parseConfig({ apiUrl: "https://a.test", shape: "s" }), apiKey }), { name: "CreateosError", message: KEY });
    });
  }

  test("without a key of its own a client takes that of the environment, trimmed", async (t) => {
    process.env.CREATEOS_API_KEY = ` ${endpoint.key}-environment \n`;
    t.after(() => delete process.env.CREATEOS_API_KEY);
    const keyless = new Environment(endpoint, { apiKey: undefined });
    await keyless.run();
    assert.equal(endpoint.requests.at(-1).headers["x-api-key"], `${endpoint.key}-environment`);
    await keyless.provider().execute(keyless.params());
    assert.equal(endpoint.requests.at(-1).headers["x-api-key"], `${endpoint.key}-environment`);
  });

  const config = parseConfig({ apiUrl: "https://options.test", apiKey: "k", shape: "s" });
  for (const [options, name] of [
    ...[0, -1, 1.5, NaN, Infinity, "5", true, null, {}, 1_000_001].flatMap((value) => [
      [{ pacing: { requestsPerMinute: value } }, "pacing.requestsPerMinute"], [{ pacing: { burst: value } }, "pacing.burst"],
    ]),
    ...[-1, 1.5, NaN, Infinity, "5", true, null, 86_400_001].flatMap((value) => [
      [{ reconnect: { attempts: value } }, "reconnect.attempts"], [{ reconnect: { delayMs: value } }, "reconnect.delayMs"],
      [{ idleTimeoutMs: value }, "idleTimeoutMs"], [{ cleanupTimeoutMs: value }, "cleanupTimeoutMs"],
    ]),
    [{ cleanupTimeoutMs: 0 }, "cleanupTimeoutMs"],
    ...[true, null, 1, "x", []].map((pacing) => [{ pacing }, "pacing"]),
    ...[true, false, null, 1, "x", []].map((reconnect) => [{ reconnect }, "reconnect"]),
    ...[null, 1, "x", true, []].map((whole) => [whole, "options"]),
  ]) {
    test(`options ${typeof options === "object" && options ? JSON.stringify(options, (_, value) => (typeof value === "number" ? String(value) : value)) : String(options)} are a RangeError naming ${name}`, () => {
      for (const make of [() => new CreateosClient(config, options), () => createProvider(options), () => new CreateosProvider(options)]) {
        assert.throws(make, (error) => error instanceof RangeError && error.name === "RangeError" && error.message.includes(name) && error.code === undefined);
      }
    });
  }

  for (const options of [undefined, {}, { pacing: false }, { pacing: {} }, { reconnect: {} }, { reconnect: { attempts: 0, delayMs: 0 }, idleTimeoutMs: 0, cleanupTimeoutMs: 1 }, { pacing: undefined, unknown: 1 }]) {
    test(`options ${JSON.stringify(options)} are good`, () => {
      assert.ok(createProvider(options) instanceof addon.CreateosProvider);
      assert.ok(new CreateosClient({ ...config, apiUrl: "https://good-options.test" }, options) instanceof addon.CreateosClient);
    });
  }

  test("the first client that paces a URL fixes its numbers, others are refused", () => {
    const at = { ...config, apiUrl: "https://paced.test" };
    new CreateosClient(at, { pacing: { requestsPerMinute: 10, burst: 5 } });
    new CreateosClient(at, { pacing: { requestsPerMinute: 10, burst: 5 } });
    new CreateosClient(at, { pacing: false });
    assert.throws(() => new CreateosClient(at, { pacing: { requestsPerMinute: 10, burst: 6 } }), (error) => error instanceof RangeError && /pacing/.test(error.message));
    assert.throws(() => new CreateosClient(at), RangeError);
  });
});
