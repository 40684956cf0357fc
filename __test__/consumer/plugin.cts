// The same surface from CommonJS. It is only compiled, never run.

import createos = require("createos-native");
import { type CreateosConfig, type ProviderOptions } from "createos-native";

const {
  CreateosApiError, CreateosCleanupError, CreateosClient, CreateosError, CreateosLoadError, CreateosProvider,
  createProvider, execute, parseConfig, release, shellQuote, shutdown,
} = createos;

const config: CreateosConfig = parseConfig({ apiUrl: "http://127.0.0.1:1", shape: "small" });
const options: ProviderOptions = { pacing: false };
const provider: createos.CreateosProvider = createProvider(options);
const client: createos.CreateosClient = new CreateosClient(config);
const params: createos.ExecuteParams = {
  driverKey: "createos", companyId: "company", environmentId: "environment", config: { ...config },
  lease: { providerLeaseId: "sb_1" }, command: "true",
};
const leased: createos.ReleaseParams = {
  driverKey: "createos", companyId: "company", environmentId: "environment", config: { ...config }, providerLeaseId: null,
};
const log: createos.Log = (stream, text) => void `${stream}${shellQuote(text)}`;

function isOurs(error: unknown): error is createos.CreateosError {
  return error instanceof CreateosError || error instanceof CreateosApiError || error instanceof CreateosCleanupError || error instanceof CreateosLoadError;
}

async function main(): Promise<createos.ExecuteResult | createos.CapturedOutput | createos.ErrorDetails | undefined> {
  try {
    if (!(provider instanceof CreateosProvider)) return await execute(client, params, undefined, log);
    return await provider.execute(params, log);
  } catch (error) {
    return isOurs(error) ? error.output ?? error.details : undefined;
  } finally {
    await release(leased, true);
    await shutdown();
  }
}

export = main;
