// An endpoint with real processes for the test, and the parameters of calls about one environment that uses it.

import { startEmulator } from "createos-native/emulator";

export async function startEndpoint(t, options) {
  const emulator = await startEmulator(options);
  t.after(() => emulator.close());
  return emulator;
}

export class Environment {
  #host;

  /** @param {import("./host.mjs").Host} host */
  constructor(host, { url, key }, { company = "acme", environment = "staging", ...settings } = {}) {
    this.#host = host;
    this.scope = {
      driverKey: "createos", companyId: company, environmentId: environment, issueId: null,
      config: { apiUrl: url, apiKey: key, shape: "s-1vcpu-1gb", reuseLease: true, ...settings },
    };
  }

  /** The same environment, asked about through another worker. */
  through(host) {
    const { companyId: company, environmentId: environment, config: { apiUrl: url, apiKey: key, ...settings } } = this.scope;
    return new Environment(host, { url, key }, { company, environment, ...settings });
  }

  call(method, params = {}) {
    return this.#host.call(`environment${method}`, { ...this.scope, ...params });
  }

  acquire() {
    return this.call("AcquireLease", { runId: "run-1", workspaceMode: "shared", adapterType: "claude_local" });
  }

  /**
   * A shell script's result, and `live`, the chunks that came before it; `heard` is called with the first.
   * @returns {Promise<any>}
   */
  async run(lease, script, params = {}, heard = () => {}) {
    const live = [];
    const result = await this.#host.call("environmentExecute", { ...this.scope, lease, command: "bash", args: ["-c", script], ...params },
      (stream, chunk) => {
        live.push([stream, chunk]);
        heard();
      });
    return { ...result, live };
  }

  resume({ providerLeaseId, metadata }) {
    return this.call("ResumeLease", { providerLeaseId, leaseMetadata: metadata });
  }

  release({ providerLeaseId, metadata }) {
    return this.call("ReleaseLease", { providerLeaseId, leaseMetadata: metadata, cancelActiveWork: true });
  }

  destroy({ providerLeaseId, metadata }) {
    return this.call("DestroyLease", { providerLeaseId, leaseMetadata: metadata });
  }
}
