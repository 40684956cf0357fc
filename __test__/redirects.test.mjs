// A redirect is no answer: whoever is named in it sees nothing, least of all the key.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { answering, CALLS } from "./support/calls.mjs";
import { startEndpoint } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";

const CODES = [301, 302, 303, 307, 308];
const OPTIONS = { reconnect: { attempts: 1, delayMs: 0 }, cleanupTimeoutMs: 400 };

/** What a call comes to whose every answer is a redirect, and how often it is made, if that is known. */
const UNANSWERED = { name: "CreateosError", message: "CreateOS connection failed.", requests: 1 };
const OUTCOMES = {
  create: { name: "CreateosCleanupError", message: "CreateOS process creation could not be confirmed; destroy the lease before reusing it.", requests: 1 },
  connect: { name: "CreateosError", message: "CreateOS process output connection failed.", requests: 2 },
  // The question leaves the error that led to it.
  wait: { name: "CreateosError", message: "CreateOS process output connection failed.", requests: 1 },
  // Asked again as long as there is time.
  terminate: { name: "CreateosCleanupError", message: "CreateOS command cleanup failed; process termination is unconfirmed." },
};

for (const [route, { operation, run }] of Object.entries(CALLS)) {
  describe(`the call ${route}`, { concurrency: true }, () => {
    const { requests, ...outcome } = OUTCOMES[route] ?? UNANSWERED;

    for (const code of CODES) {
      test(`counts a ${code} as no answer and does not follow it`, async (t) => {
        const second = await startEndpoint({}, { t });
        const first = await startEndpoint(answering(route, (exchange) => exchange.fail(code, { location: `${second.url}${exchange.path}` })), { t });
        const environment = new Environment(first);
        await assert.rejects(run(environment, environment.provider(OPTIONS)), (error) => {
          assert.deepEqual({ name: error.name, message: error.message }, outcome);
          const { attempts, ...details } = error.details;
          assert.equal(details.operation, operation);
          if (route !== "wait") assert.deepEqual(attempts, Array(details.tries).fill({ failure: "protocol" }));
          return true;
        });
        if (requests !== undefined) assert.equal(first.of(route).length, requests);
        assert.equal(second.connections, 0, "nothing comes to the other server");
      });
    }

    test("does not follow a redirect to another path of its own server either", async (t) => {
      const endpoint = await startEndpoint(answering(route, (exchange) => exchange.fail(307, { location: "/v1/elsewhere" })), { t });
      const environment = new Environment(endpoint);
      await assert.rejects(run(environment, environment.provider(OPTIONS)), outcome);
      assert.deepEqual(endpoint.of("unknown"), []);
    });
  });
}
