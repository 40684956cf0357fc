// Leases: whose they are, what may run on them, how they are given back, and how everything is shut down.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, startEndpoint } from "./support/endpoint.mjs";
import { bash, Environment } from "./support/environment.mjs";
import { execute, release, shutdown } from "./support/package.mjs";
import { awaiting, emulatorForFile, until } from "./support/sandbox.mjs";

const CANCELLED = { name: "CreateosError", message: "CreateOS command was cancelled." };
const CLOSING = { name: "CreateosError", message: "CreateOS lease is closing or requires cleanup." };
const UNCONFIRMED = { name: "CreateosCleanupError", message: "CreateOS command cleanup failed; process termination is unconfirmed." };

/** Streams one frame and then nothing, until the client goes. */
const running = async (exchange) => {
  await exchange.head();
  await exchange.frames(data(1, "up"));
  await exchange.gone();
};

describe("leases of real sandboxes", async () => {
  const host = await emulatorForFile();

  test("a release deletes the sandbox, and a second one finds it gone", async () => {
    const sandbox = await host.sandbox();
    const provider = sandbox.provider();
    assert.equal((await provider.execute(sandbox.params(bash("echo x")))).stdout, "x\n");
    assert.equal(await provider.release(sandbox.held(), false), undefined);
    assert.equal(await sandbox.state(), "destroyed");
    await provider.release(sandbox.held(), true);
    assert.deepEqual(sandbox.requests("destroySandbox").length, 2);
  });

  test("a reusable lease is paused, and told so only when it is", async () => {
    const sandbox = await host.sandbox({ reuseLease: true });
    const provider = sandbox.provider();
    await provider.release(sandbox.held(), false);
    assert.equal(await sandbox.state(), "paused");
    await provider.release(sandbox.held(), false);
    assert.equal(sandbox.requests("pause").length, 1, "paused already");
    await provider.release(sandbox.held(), true);
    assert.equal(await sandbox.state(), "destroyed");
  });

  test("the module's release stops what the module's execute runs, here and from other clients", async () => {
    const sandbox = await host.sandbox();
    const [one, two] = [awaiting("up"), awaiting("up")];
    const other = await host.sandbox();
    const bystander = execute(other.client(), other.params(bash("sleep 1; echo done")));
    const ended = [one, two].map(({ log }) => assert.rejects(execute(sandbox.client(), sandbox.params(bash("echo up; sleep 600")), null, log), CANCELLED));
    await Promise.all([one.seen, two.seen]);
    await release(sandbox.held(), true);
    await Promise.all(ended);
    assert.equal(await sandbox.state(), "destroyed");
    assert.equal((await bystander).stdout, "done\n");
  });

  test("a provider's release does not stop what others run, nor the other way round", async () => {
    const sandbox = await host.sandbox({ reuseLease: true });
    const [mine, other] = [sandbox.provider(), sandbox.provider()];
    const { log, seen } = awaiting("up");
    const run = mine.execute(sandbox.params(bash("echo up; sleep 0.5; echo done")), log);
    await seen;
    // Released by others, the sandbox is paused under the command, and goes on when it is resumed.
    await other.release(sandbox.held(), false);
    await release(sandbox.held(), false);
    await host.call("POST", `/sandboxes/${sandbox.id}/resume`);
    assert.equal((await run).stdout, "up\ndone\n");
  });

  test("while a lease is being released no command starts on it and no second release", async (t) => {
    const sandbox = await host.sandbox();
    const provider = sandbox.provider();
    let proceed;
    const allowed = new Promise((resolve) => (proceed = resolve));
    host.interfere(t, ({ route }) => (route === "destroySandbox" ? allowed : undefined));
    const released = provider.release(sandbox.held(), true);
    await assert.rejects(provider.execute(sandbox.params()), CLOSING);
    await assert.rejects(provider.release(sandbox.held(), true), { name: "CreateosError", message: "CreateOS lease cleanup is already in progress." });
    // Another lease, environment, company or key is another lease state.
    const other = await host.sandbox();
    assert.equal((await provider.execute(other.params())).exitCode, 0);
    const elsewhere = { ...sandbox.params(), environmentId: "other", lease: { providerLeaseId: sandbox.id, metadata: { ...sandbox.metadata, environmentId: "other" } } };
    assert.equal((await provider.execute(elsewhere)).exitCode, 0);
    proceed();
    await released;
  });

  test("shutdown ends everything, confirmed, and refuses new commands; release still works", async () => {
    const sandbox = await host.sandbox();
    const provider = sandbox.provider();
    const starts = Array.from({ length: 5 }, () => awaiting("up"));
    let answered = 0;
    const ended = starts.map(async ({ log }) => {
      await assert.rejects(provider.execute(sandbox.params(bash("echo up; sleep 600")), log).finally(() => answered++), CANCELLED);
    });
    await Promise.all(starts.map(({ seen }) => seen));
    const shut = provider.shutdown();
    await assert.rejects(provider.execute(sandbox.params()), CLOSING, "at once");
    assert.equal(await shut, undefined);
    assert.equal(answered, starts.length, "a shutdown is over when every caller has been told");
    await Promise.all(ended);
    assert.deepEqual(await host.emulator.hostPids(), []);
    await assert.rejects(provider.execute(sandbox.params()), CLOSING);
    await provider.shutdown();
    await provider.release(sandbox.held(), true);
    assert.equal(await sandbox.state(), "destroyed");
  });
});

describe("leases of scripted sandboxes", () => {
  test("the module's release is paced as the URL's first client said, a provider with other numbers is refused", async (t) => {
    const environment = new Environment(await startEndpoint({}, { t }));
    environment.client({ pacing: { requestsPerMinute: 100, burst: 10 } });
    await release(environment.held(), true);
    const range = { name: "RangeError", message: /^pacing .* 100 requests per minute .* 10$/ };
    const provider = environment.provider({ pacing: { burst: 20 } });
    await assert.rejects(provider.release(environment.held(), true), range);
    await assert.rejects(provider.execute(environment.params()), range);
    assert.throws(() => environment.client({ pacing: { burst: 20 } }), range);
    assert.equal((await environment.run()).exitCode, 0);
  });

  /** A command whose termination is never confirmed. */
  async function quarantine(environment, provider, endpoint) {
    endpoint.handlers.connect = (exchange) => exchange.fail(404);
    endpoint.handlers.terminate = (exchange) => exchange.fail(403);
    const run = provider ? provider.execute(environment.params()) : environment.run();
    await assert.rejects(run, UNCONFIRMED);
    delete endpoint.handlers.connect;
    delete endpoint.handlers.terminate;
  }

  test("an unconfirmed lease takes no command and no pause until it is destroyed", async (t) => {
    const endpoint = await startEndpoint({}, { t });
    const environment = new Environment(endpoint, { reuseLease: true });
    const provider = environment.provider();
    await quarantine(environment, provider, endpoint);
    const before = endpoint.requests.length;
    await assert.rejects(provider.execute(environment.params()), CLOSING);
    await assert.rejects(provider.release(environment.held(), false), { name: "CreateosError", message: "CreateOS process cleanup is unconfirmed; destroy this lease before reusing it." });
    assert.equal(endpoint.requests.length, before);
    endpoint.handlers.destroySandbox = (exchange) => exchange.fail(exchange.count === 1 ? 500 : 404);
    await assert.rejects(provider.release(environment.held(), true), { name: "CreateosApiError", message: "CreateOS request failed (HTTP 500) during sandbox lifecycle.", status: 500 });
    await assert.rejects(provider.execute(environment.params()), CLOSING);
    await provider.release(environment.held(), true);
    assert.equal((await provider.execute(environment.params())).exitCode, 0);
  });

  test("the module's execute runs on an unconfirmed lease, whose pause the module's release refuses", async (t) => {
    const endpoint = await startEndpoint({}, { t });
    const environment = new Environment(endpoint, { reuseLease: true });
    await quarantine(environment, null, endpoint);
    assert.equal((await environment.run()).exitCode, 0);
    await assert.rejects(release(environment.held(), false), { message: "CreateOS process cleanup is unconfirmed; destroy this lease before reusing it." });
    await release(environment.held(), true);
    endpoint.handlers.getSandbox = (exchange) => exchange.success({ id: "sb_test", status: "paused" });
    await release(environment.held(), false);
  });

  test("a creation that is not confirmed quarantines the lease, a refused one does not", async (t) => {
    const endpoint = await startEndpoint({ create: (exchange) => exchange.fail(exchange.count === 1 ? 429 : 500) }, { t });
    const environment = new Environment(endpoint);
    const provider = environment.provider();
    await assert.rejects(provider.execute(environment.params()), { name: "CreateosApiError", status: 429 });
    await assert.rejects(provider.execute(environment.params()), { name: "CreateosCleanupError" });
    await assert.rejects(provider.execute(environment.params()), CLOSING);
    assert.equal(endpoint.of("create").length, 2);
  });

  test("cancelled while the creation is on its way means unconfirmed, cancelled before means nothing was created", async (t) => {
    const endpoint = await startEndpoint({ upload: (exchange) => exchange.hang(), create: (exchange) => exchange.hang() }, { t });
    const environment = new Environment(endpoint);
    const provider = environment.provider();
    const controller = new AbortController();
    const early = assert.rejects(provider.execute(environment.params({ stdin: "x" }), null, controller.signal), CANCELLED);
    await endpoint.seen("upload");
    controller.abort();
    await early;
    const late = new AbortController();
    const cut = assert.rejects(provider.execute(environment.params(), null, late.signal), {
      name: "CreateosCleanupError", message: "CreateOS process creation could not be confirmed; destroy the lease before reusing it.",
    });
    await endpoint.seen("create");
    late.abort();
    await cut;
    await assert.rejects(provider.execute(environment.params()), CLOSING);
  });

  test("a release waits for the cleanup of what it stopped", async (t) => {
    let confirm;
    const endpoint = await startEndpoint({ connect: running, terminate: async (exchange) => {
      await new Promise((resolve) => (confirm = resolve));
      await exchange.success({ tree_exited: true });
    } }, { t });
    const environment = new Environment(endpoint);
    const provider = environment.provider();
    const { log, seen } = awaiting("up");
    const ended = assert.rejects(provider.execute(environment.params(), log), CANCELLED);
    await seen;
    const released = provider.release(environment.held(), true);
    await endpoint.seen("terminate");
    assert.equal(endpoint.of("destroySandbox").length, 0);
    confirm();
    await ended;
    await released;
    assert.equal(endpoint.of("destroySandbox").length, 1);
  });

  test("a pause is waited for, and asked for once", async (t) => {
    const states = ["running", "running", "pausing", "pausing", "paused"];
    const endpoint = await startEndpoint({ getSandbox: (exchange) => exchange.success({ id: "sb_test", status: states.shift() }) }, { t });
    const environment = new Environment(endpoint, { reuseLease: true });
    await environment.provider().release(environment.held(), false);
    assert.deepEqual([endpoint.of("pause").length, endpoint.of("getSandbox").length, states], [1, 5, []]);
  });

  for (const [what, handlers, message] of [
    ["never pauses", { getSandbox: (exchange) => exchange.success({ id: "sb_test", status: "pausing" }) }, "CreateOS sandbox did not reach paused."],
    ["does not answer", { getSandbox: (exchange) => exchange.hang() }, "CreateOS sandbox did not reach paused."],
    ["failed", { getSandbox: (exchange) => exchange.success({ id: "sb_test", status: "failed" }) }, "CreateOS sandbox did not reach paused."],
    ["is another one", { getSandbox: (exchange) => exchange.success({ id: "sb_other", status: "running" }) }, "CreateOS sandbox identity or state is invalid."],
    ["has no state", { getSandbox: (exchange) => exchange.success({ id: "sb_test" }) }, "CreateOS sandbox identity or state is invalid."],
    ["may not be paused", { pause: (exchange) => exchange.fail(403) }, "CreateOS request failed (HTTP 403) during sandbox lifecycle."],
    ["may not be seen", { getSandbox: (exchange) => exchange.fail(401) }, "CreateOS request failed (HTTP 401) during sandbox lifecycle."],
  ]) {
    test(`a sandbox that ${what} fails its release: ${message}`, async (t) => {
      const endpoint = await startEndpoint(handlers, { t });
      const environment = new Environment(endpoint, { reuseLease: true, timeoutMs: 1000 });
      await assert.rejects(environment.provider().release(environment.held(), false), { message });
    });
  }

  test("a sandbox that is gone needs no pause", async (t) => {
    const endpoint = await startEndpoint({ getSandbox: (exchange) => exchange.fail(404) }, { t });
    const environment = new Environment(endpoint, { reuseLease: true });
    assert.equal(await environment.provider().release(environment.held(), false), undefined);
    assert.equal(endpoint.of("pause").length, 0);
  });

  test("a deletion that is not answered by its deadline is a failed connection", async (t) => {
    const endpoint = await startEndpoint({ destroySandbox: (exchange) => exchange.hang() }, { t });
    const environment = new Environment(endpoint, { timeoutMs: 500 });
    await assert.rejects(environment.provider().release(environment.held(), true), {
      name: "CreateosError", message: "CreateOS connection failed.", details: { operation: "sandbox lifecycle", tries: 1, attempts: [{ failure: "timeout" }] },
    });
  });

  test("a shutdown of five commands with an endpoint that hangs takes less than 10 s", async (t) => {
    const endpoint = await startEndpoint({ connect: running, terminate: (exchange) => exchange.hang() }, { t });
    const environment = new Environment(endpoint);
    const provider = environment.provider({ cleanupTimeoutMs: 60_000 });
    const starts = Array.from({ length: 5 }, () => awaiting("up"));
    const ended = starts.map(({ log }) => assert.rejects(provider.execute(environment.params({ stdin: "x" }), log), UNCONFIRMED));
    await Promise.all(starts.map(({ seen }) => seen));
    const begun = performance.now();
    await provider.shutdown();
    const took = performance.now() - begun;
    await Promise.all(ended);
    assert.ok(took < 10_000, `it took ${took} ms`);
  });

  test("a hundred commands are shut down side by side", async (t) => {
    const endpoint = await startEndpoint({ connect: running, terminate: async (exchange) => {
      await until(() => endpoint.of("terminate").length >= 100);
      await exchange.success({ tree_exited: true });
    } }, { t });
    const environment = new Environment(endpoint);
    const provider = environment.provider();
    const starts = Array.from({ length: 100 }, () => awaiting("up"));
    const ended = starts.map(({ log }) => assert.rejects(provider.execute(environment.params(), log), CANCELLED));
    await Promise.all(starts.map(({ seen }) => seen));
    await provider.shutdown();
    await Promise.all(ended);
  });

  // Last, since it is for the whole process and for good.
  test("the module's shutdown ends what the module runs, whose execute is not refused afterwards", async (t) => {
    const endpoint = await startEndpoint({ connect: running }, { t });
    const environment = new Environment(endpoint);
    const { log, seen } = awaiting("up");
    const ended = assert.rejects(environment.run({}, { log }), CANCELLED);
    await seen;
    await shutdown();
    await ended;
    delete endpoint.handlers.connect;
    assert.equal((await environment.run()).exitCode, 0);
    await release(environment.held(), true);
  });
});
