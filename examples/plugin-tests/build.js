// Runs a build in a sandbox of its own, which is gone afterwards, whatever happens.

import { CreateosError } from "createos-native";

/**
 * @param {import("createos-native").CreateosProvider} provider
 * @param {import("createos-native").ScopeParams & {runId: string}} scope
 * @param {string} source
 * @param {{signal?: AbortSignal, log?: import("createos-native").Log}} [options]
 */
export async function build(provider, scope, source, { signal, log } = {}) {
  const lease = await provider.acquireLease(scope);
  try {
    const { exitCode, stdout } = await provider.execute({ ...scope, lease, command: "bash", args: ["-ec", source] }, log, signal);
    return exitCode === 0 ? { state: "built", report: stdout } : { state: "failed", report: stdout };
  } catch (error) {
    if (!(error instanceof CreateosError)) throw error;
    return { state: "interrupted", report: error.output?.stdout ?? "", reason: error.message };
  } finally {
    await provider.destroyLease({ ...scope, providerLeaseId: lease.providerLeaseId, leaseMetadata: lease.metadata });
  }
}
