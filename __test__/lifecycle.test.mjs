// A lease's life as the host sees it, from acquisition to destruction, on an endpoint that runs real processes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CreateosApiError, CreateosCleanupError, CreateosError } from "./support/package.mjs";
import { Host, WORKSPACE } from "./support/lease.mjs";

/** A hook for some routes. */
const on = (actions) => ({ hooks: { request: (request) => actions[request.route]?.(request) } });

const EXPIRED = { providerLeaseId: null, metadata: { expired: true } };

const routes = (host) => host.emulator.requests.map(({ route }) => route);

/** The sandboxes that the endpoint still has. */
async function sandboxes({ emulator: { url, key } }) {
  const response = await fetch(`${url}/v1/sandboxes`, { headers: { "x-api-key": key } });
  return (await response.json()).data.pagination.total;
}

/** What a call failed with. */
const failure = (promise) => promise.then((value) => assert.fail(`it gave ${JSON.stringify(value)}`), (error) => error);

/** A promise and what settles it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

test("a lease has a workspace and a marker, and its metadata is all but the key", async (t) => {
  const host = await Host.start(t, { config: { reuseLease: true } });
  const { providerLeaseId, metadata } = await host.acquire();
  const { marker, ...rest } = metadata;
  assert.deepEqual(rest, {
    provider: "createos", apiUrl: host.emulator.url, companyId: "company", environmentId: "environment",
    remoteCwd: WORKSPACE, shellCommand: "bash", shape: "s-1vcpu-1gb", rootfs: null, region: null, reuseLease: true,
  });
  assert.equal(await host.bash("cat .paperclip-runtime/.paperclip-createos-lease"), marker);
  assert.ok(!JSON.stringify(metadata).includes(host.emulator.key));
  assert.match(providerLeaseId, /^sb_/);
  assert.deepEqual(await host.provider.realizeWorkspace({ ...host.base, lease: host.lease, workspace: {} }), {
    cwd: WORKSPACE, metadata: { provider: "createos", remoteCwd: WORKSPACE },
  });
});

test("a setup that fails leaves no sandbox, and says so if it may", async (t) => {
  const faults = {
    exec: () => ({ status: 503 }),
    upload: () => ({ status: 507 }),
    destroySandbox: ({ attempt }) => (attempt === 3 ? { status: 500 } : undefined),
  };
  const host = await Host.start(t, { emulator: on(faults) });
  const unprepared = await failure(host.acquire());
  assert.ok(unprepared instanceof CreateosApiError);
  assert.equal(unprepared.message, "CreateOS request failed (HTTP 503) during workspace command.");
  delete faults.exec;
  assert.equal((await failure(host.acquire())).message, "CreateOS request failed (HTTP 507) during file transfer.");
  assert.equal(await sandboxes(host), 0);
  const left = await failure(host.acquire());
  assert.match(left.message, /^CreateOS setup failed and cleanup is unconfirmed for sandbox sb_\w+\.$/);
  assert.equal(left.details.operation, "file transfer");
  assert.equal(await sandboxes(host), 1);
});

test("a creation whose answer is lost is not tried again", async (t) => {
  const host = await Host.start(t, { emulator: on({ createSandbox: () => ({ lost: true }) }) });
  assert.equal((await failure(host.acquire())).message, "CreateOS connection failed.");
  assert.equal(routes(host).filter((route) => route === "createSandbox").length, 1);
});

test("a shutdown during an acquisition or a probe waits for the sandbox's name and deletes it, then tells the caller", async (t) => {
  const { opened, open } = gate();
  const host = await Host.start(t, { emulator: on({ createSandbox: async () => void (await opened) }) });
  let answered = 0;
  const calls = [failure(host.acquire()), host.provider.probe(host.base)].map((call) => call.finally(() => answered++));
  await host.emulator.waitForRequest("createSandbox", calls.length);
  const shutdown = host.provider.shutdown();
  open();
  await shutdown;
  assert.equal(answered, calls.length, "a shutdown is over when every caller has been told");
  const [acquired, probed] = await Promise.all(calls);
  assert.equal(acquired.message, "CreateOS command was cancelled.");
  assert.deepEqual(probed, { ok: false, summary: "CreateOS command was cancelled." });
  assert.equal(await sandboxes(host), 0);
  assert.equal((await failure(host.acquire())).message, "CreateOS lease is closing or requires cleanup.");
});

test("a probe tells what works, and leaves nothing behind", async (t) => {
  const faults = {};
  const host = await Host.start(t, { emulator: on(faults) });
  assert.deepEqual(await host.provider.probe(host.base), {
    ok: true, summary: "CreateOS sandbox creation and command execution succeeded.",
  });
  const wrongKey = { ...host.base, config: { ...host.base.config, apiKey: "wrong" } };
  assert.deepEqual(await host.provider.probe(wrongKey), {
    ok: false, summary: "CreateOS request failed (HTTP 401) during sandbox lifecycle.",
  });
  assert.deepEqual(await host.provider.probe({ ...host.base, config: {} }), { ok: false, summary: "CreateOS requires an API URL." });
  faults.connect = () => ({ status: 410 });
  assert.deepEqual(await host.provider.probe(host.base), {
    ok: false, summary: "CreateOS process output was evicted before it could be read.",
  });
  assert.equal(await sandboxes(host), 0);
  faults.destroySandbox = () => ({ status: 500 });
  assert.equal((await failure(host.provider.probe(host.base))).message, "CreateOS request failed (HTTP 500) during sandbox lifecycle.");
});

test("a released lease sleeps until it is resumed, and is gone once destroyed", async (t) => {
  const faults = {};
  const host = await Host.start(t, { config: { reuseLease: true }, emulator: on(faults) });
  const { providerLeaseId, metadata } = await host.acquire();
  await host.bash("echo kept > file");
  assert.deepEqual(await host.provider.releaseLease(host.named()), { providerLeaseId, state: "stopped" });
  assert.deepEqual(await host.provider.resumeLease(host.named()), { providerLeaseId, metadata: { ...metadata, resumedLease: true } });
  assert.ok(!routes(host).includes("listProcesses"), "nothing can run on a lease that was had all along");
  assert.equal(await host.bash("cat file"), "kept\n");
  assert.deepEqual(await host.provider.destroyLease(host.named()), { providerLeaseId, state: "destroyed" });
  assert.deepEqual(await host.provider.resumeLease(host.named()), EXPIRED);
  faults.getSandbox = () => ({ status: 404 });
  assert.deepEqual(await host.provider.releaseLease(host.named()), { providerLeaseId, state: "destroyed" }, "nothing is left to pause");
  assert.equal(await host.provider.releaseLease({ ...host.base, providerLeaseId: null }), undefined);
});

test("a release cancels what runs, whatever it is told about that, and has a receipt only once it is confirmed", async (t) => {
  const faults = {};
  const host = await Host.start(t, { config: { reuseLease: true }, emulator: on(faults) });
  await host.acquire();
  const running = failure(host.bash("sleep 1000"));
  await host.emulator.waitForRequest("connect");
  const released = await host.provider.releaseLease({ ...host.named(), cancelActiveWork: false });
  assert.equal(released.state, "stopped");
  assert.equal((await running).message, "CreateOS command was cancelled.");
  faults.destroySandbox = () => ({ status: 503 });
  assert.equal((await failure(host.provider.destroyLease(host.named()))).status, 503);
});

test("a new worker ends what the last one left running before it hands out the lease", async (t) => {
  const host = await Host.start(t, { config: { reuseLease: true } });
  await host.acquire();
  await host.bash("sleep 1000 > /dev/null 2>&1 &");
  const lost = failure(host.bash("trap '' TERM; echo started; sleep 1000; sleep 1000"));
  await host.emulator.waitForRequest("connect", 2);
  assert.ok((await host.emulator.hostPids()).length >= 2);
  const before = host.provider;
  host.restart();
  assert.equal((await host.provider.resumeLease(host.named())).metadata.resumedLease, true);
  assert.deepEqual(await host.emulator.hostPids(), []);
  await host.provider.resumeLease(host.named());
  assert.equal(routes(host).filter((route) => route === "listProcesses").length, 1, "from then on it is its own");
  await before.shutdown();
  await lost;
});

test("a lease whose old processes do not end for certain is not handed out until it is destroyed", async (t) => {
  const faults = { terminate: () => ({ status: 403 }) };
  const host = await Host.start(t, { config: { reuseLease: true }, emulator: on(faults) });
  await host.acquire();
  await host.bash("sleep 1000 > /dev/null 2>&1 &");
  host.restart();
  const unconfirmed = await failure(host.provider.resumeLease(host.named()));
  assert.ok(unconfirmed instanceof CreateosCleanupError);
  assert.equal((await failure(host.bash("true"))).message, "CreateOS lease is closing or requires cleanup.");
  assert.equal((await failure(host.provider.resumeLease(host.named()))).message, "CreateOS lease cleanup must finish before resume.");
  assert.deepEqual(await host.provider.health().then(({ status, details }) => [status, details]), ["degraded", { running: 0, unconfirmed: 1 }]);
  assert.equal((await host.provider.destroyLease(host.named())).state, "destroyed");
  assert.equal((await host.provider.health()).status, "ok");
});

test("a list of processes that cannot be had hands out nothing, and is asked for again", async (t) => {
  const faults = { listProcesses: () => ({ status: 503 }) };
  const host = await Host.start(t, { emulator: on(faults) });
  await host.acquire();
  host.restart();
  assert.equal((await failure(host.provider.resumeLease(host.named()))).message, "CreateOS request failed (HTTP 503) during process cleanup.");
  faults.listProcesses = () => ({ status: 200, body: { status: "success", data: { processes: [{ process_id: "../x" }] } } });
  assert.equal((await failure(host.provider.resumeLease(host.named()))).message, "CreateOS returned an invalid resource ID.");
  delete faults.listProcesses;
  assert.equal((await host.provider.resumeLease(host.named())).metadata.resumedLease, true);
});

test("a passing fault expires no lease and deletes nothing", async (t) => {
  const faults = {};
  const host = await Host.start(t, { config: { reuseLease: true, timeoutMs: 3_000 }, emulator: on(faults) });
  await host.acquire();
  for (const route of ["getSandbox", "exec"]) {
    for (const action of [{ status: 500 }, { status: 429 }, { lost: true }, { hang: true }]) {
      faults[route] = () => action;
      const error = await failure(host.provider.resumeLease(host.named()));
      assert.ok(error instanceof CreateosError, `${route} ${JSON.stringify(action)}`);
    }
    delete faults[route];
  }
  assert.ok(!routes(host).includes("destroySandbox"));
  assert.equal((await host.provider.resumeLease(host.named())).metadata.resumedLease, true);
});

test("a lease with another marker, or none, is expired", async (t) => {
  const host = await Host.start(t);
  const { metadata } = await host.acquire();
  const resume = (leaseMetadata) => host.provider.resumeLease({ ...host.named(), leaseMetadata });
  for (const marker of ["00000000-0000-4000-8000-000000000000", "x", 5, undefined]) {
    assert.deepEqual(await resume({ ...metadata, marker }), EXPIRED, String(marker));
  }
  for (const changed of [{ shape: "s-2vcpu-2gb" }, { rootfs: "image" }, { rootfs: undefined }, { region: 5 }]) {
    assert.deepEqual(await resume({ ...metadata, ...changed }), EXPIRED, JSON.stringify(changed));
  }
  await host.bash("rm .paperclip-runtime/.paperclip-createos-lease");
  assert.deepEqual(await resume(metadata), EXPIRED);
});

test("a release cancels a resume that waits for the sandbox", async (t) => {
  const faults = {};
  const host = await Host.start(t, { config: { reuseLease: true }, emulator: on(faults) });
  await host.acquire();
  faults.getSandbox = () => ({ hang: true });
  const resuming = failure(host.provider.resumeLease(host.named()));
  await host.emulator.waitForRequest("getSandbox", routes(host).filter((route) => route === "getSandbox").length + 1);
  delete faults.getSandbox;
  assert.equal((await host.provider.releaseLease(host.named())).state, "stopped");
  assert.equal((await resuming).message, "CreateOS command was cancelled.");
});

test("a provider that was shut down says so, and still gives leases back", async (t) => {
  const host = await Host.start(t);
  await host.acquire();
  await host.provider.shutdown();
  assert.equal((await host.provider.health()).status, "error");
  assert.equal((await failure(host.provider.resumeLease(host.named()))).message, "CreateOS lease cleanup must finish before resume.");
  assert.equal((await host.provider.destroyLease(host.named())).state, "destroyed");
  assert.equal(await sandboxes(host), 0);
});

test("parameters of a wrong type are refused as a rejection", async (t) => {
  const host = await Host.start(t);
  for (const call of ["validateConfig", "probe", "acquireLease", "resumeLease", "releaseLease", "destroyLease", "realizeWorkspace", "syncIn", "syncOut"]) {
    for (const params of [undefined, null, 5, []]) {
      assert.equal((await failure(host.provider[call](params))).message, "Invalid CreateOS command parameters.", `${call}(${params})`);
    }
  }
  assert.deepEqual(host.emulator.requests, []);
});
