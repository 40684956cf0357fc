import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { createProvider } from "createos-native";
import { startEmulator } from "createos-native/emulator";
import { build } from "./build.js";

let emulator, provider, scope;
/** What a test wants done with requests. */
let interfere = () => undefined;

before(async () => {
  emulator = await startEmulator({ hooks: { request: (request) => interfere(request) } });
  provider = createProvider({ reconnect: { delayMs: 10 } });
  const config = { apiUrl: emulator.url, apiKey: emulator.key, shape: "s-1vcpu-1gb" };
  scope = { driverKey: "createos", companyId: "acme", environmentId: "test", runId: "run-1", config };
});
afterEach(() => (interfere = () => undefined));
after(async () => {
  await provider.shutdown();
  await emulator.close();
});

const destroyed = () => emulator.requests.filter(({ route }) => route === "destroySandbox").length;

test("a build that succeeds is built, and its sandbox is gone", async () => {
  const before = destroyed();
  assert.deepEqual(await build(provider, scope, "echo compiled"), { state: "built", report: "compiled\n" });
  assert.equal(destroyed(), before + 1);
});

test("a build that fails has failed", async () => {
  assert.deepEqual(await build(provider, scope, "echo compiling; false; echo never"), { state: "failed", report: "compiling\n" });
});

test("a connection that breaks again and again loses nothing", async () => {
  let broken = 0;
  interfere = ({ route }) => (route === "connect" && broken++ < 2 ? { cutAfter: 20 } : undefined);
  assert.deepEqual(await build(provider, scope, "seq 1 3"), { state: "built", report: "1\n2\n3\n" });
  assert.ok(broken >= 3);
});

test("an endpoint that refuses a command is told apart from a build that fails", async () => {
  interfere = ({ route }) => (route === "create" ? { status: 503 } : undefined);
  const { state, reason } = await build(provider, scope, "true");
  assert.equal(state, "interrupted");
  assert.match(reason, /could not be confirmed/);
});

test("a build that is cancelled keeps what it had printed, and its sandbox is gone", async () => {
  const before = destroyed();
  const controller = new AbortController();
  const log = () => controller.abort();
  const { state, report, reason } = await build(provider, scope, "echo begun; exec sleep 600", { signal: controller.signal, log });
  assert.deepEqual({ state, report, reason }, { state: "interrupted", report: "begun\n", reason: "CreateOS command was cancelled." });
  assert.equal(destroyed(), before + 1);
});
