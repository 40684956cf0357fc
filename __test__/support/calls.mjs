// Every call of the API that the package makes, and what a host does that leads to it. How the call is answered is the
// test's business: `answers` is for an endpoint of endpoint.mjs.
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { data, HEALTHY } from "./endpoint.mjs";
import { abortOn } from "./sandbox.mjs";

const MARKER = "00000000-0000-4000-8000-000000000000";

/** The lease as acquiring it would have described it. */
export const held = (environment) => environment.held({ leaseMetadata: { ...environment.metadata, marker: MARKER, shape: environment.config.shape, rootfs: null, region: null } });
const resume = (environment, provider) => provider.resumeLease(held(environment));

async function download(environment, provider) {
  const directory = await mkdtemp(path.join(os.tmpdir(), "createos-calls-test-"));
  try {
    const files = [{ sourcePath: "/paperclip-workspace/file", targetPath: path.join(directory, "file"), kind: "file" }];
    const operations = [{ operationId: "operation", files }];
    return await provider.syncOut({ ...environment.scope, lease: environment.params().lease, operations });
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Output and no end, so that the command has to be ended. */
async function endless(exchange) {
  await exchange.head();
  await exchange.frames(data(1, "x"));
  await exchange.gone();
}

/** @type {Record<string, {operation: string, run: (environment: any, provider: any) => Promise<unknown>, answers?: object}>} */
export const CALLS = {
  createSandbox: { operation: "sandbox lifecycle", run: (environment, provider) => provider.acquireLease({ ...environment.scope, runId: "run" }) },
  getSandbox: { operation: "sandbox lifecycle", run: resume },
  resume: {
    operation: "sandbox lifecycle", run: resume,
    answers: { getSandbox: (exchange) => exchange.success({ id: "sb_test", status: "paused" }) },
  },
  pause: { operation: "sandbox lifecycle", run: (environment, provider) => provider.releaseLease({ ...held(environment), config: { ...environment.config, reuseLease: true } }) },
  destroySandbox: { operation: "sandbox lifecycle", run: (environment, provider) => provider.destroyLease(held(environment)) },
  exec: { operation: "workspace command", run: resume },
  listProcesses: {
    operation: "process cleanup", run: resume,
    answers: { exec: (exchange) => exchange.success({ result: { exit_code: 0, stdout: MARKER, stderr: "" } }) },
  },
  upload: { operation: "file transfer", run: (environment, provider) => provider.execute(environment.params({ stdin: "input" })) },
  download: { operation: "file transfer", run: download },
  create: { operation: "process creation", run: (environment, provider) => provider.execute(environment.params()) },
  stdinClose: { operation: "stdin close", run: (environment, provider) => provider.execute(environment.params()) },
  connect: { operation: "output connection", run: (environment, provider) => provider.execute(environment.params()) },
  wait: {
    operation: "output connection", run: (environment, provider) => provider.execute(environment.params()),
    answers: { connect: (exchange) => exchange.fail(503) },
  },
  terminate: {
    operation: "process cleanup",
    run: (environment, provider) => {
      const { log, signal } = abortOn("x", new DOMException("late", "TimeoutError"));
      return provider.execute(environment.params(), log, signal);
    },
    answers: { connect: endless },
  },
};

/** What an endpoint answers so that a call is made, and is answered by `handler`. */
export const answering = (route, handler) => ({ ...HEALTHY, ...CALLS[route].answers, [route]: handler });
