// Listeners that remember events, each of them looked through for secrets.
import assert from "node:assert/strict";
import { scan } from "./secrets.mjs";

export const CHANNELS = ["connected", "reconnecting", "throttled", "cleanup", "released"].map((type) => `createos:${type}`);

/** An `onEvent` that remembers its events. */
export function listener() {
  const events = [];
  const onEvent = (event) => {
    assert.ok(Object.isFrozen(event));
    scan(JSON.stringify(event));
    events.push(scan(event));
  };
  return { onEvent, events };
}

/** Events of calls on one lease, as they are expected. */
export const told = (call, leaseId = "sb_test") => (type, processId, facts) => ({ type, call, leaseId, processId, ...facts });
