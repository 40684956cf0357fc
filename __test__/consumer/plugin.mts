// A strict ES module that uses every export of the package. It is only compiled, never run.

import {
  CreateosApiError,
  CreateosCleanupError,
  CreateosClient,
  CreateosError,
  CreateosLoadError,
  CreateosProvider,
  createProvider,
  execute,
  parseConfig,
  release,
  shellQuote,
  shutdown,
} from "createos-native";
import type {
  CapturedOutput,
  CreateosConfig,
  CreateosEvent,
  ErrorDetails,
  ExecuteParams,
  ExecuteResult,
  Log,
  OnEvent,
  ProviderOptions,
  ReleaseParams,
} from "createos-native";
import { startEmulator, type Emulator, type EmulatorOptions } from "createos-native/emulator";

const config: CreateosConfig = parseConfig({ apiUrl: "http://127.0.0.1:1", shape: "small" });
const members: [string, string | null, string, string | null, string | null, number, boolean] = [
  config.apiUrl, config.apiKey, config.shape, config.rootfs, config.region, config.timeoutMs, config.reuseLease,
];

const options: ProviderOptions = {
  pacing: { requestsPerMinute: 200, burst: 40 },
  reconnect: { attempts: 3, delayMs: 250 },
  idleTimeoutMs: 300_000,
  cleanupTimeoutMs: 15_000,
};
function described(event: CreateosEvent): string {
  const subject = [event.call, event.leaseId ?? "", event.processId ?? ""].join(" ");
  switch (event.type) {
    case "connected":
      return subject;
    case "reconnecting":
      return `${subject} ${event.reason satisfies string} ${event.status ?? ""} ${event.attempt + event.delayMs}`;
    case "throttled":
      return `${subject} ${event.cause} ${event.waitMs satisfies number}`;
    case "cleanup":
      return `${subject} ${event.state satisfies "started" | "confirmed" | "unconfirmed"}`;
    case "released":
      return `${subject} ${event.state satisfies "stopped" | "destroyed"}`;
    default:
      return event satisfies never;
  }
}
const onEvent: OnEvent = (event) => void described(event);
const unpaced: ProviderOptions = { pacing: false, onEvent };

const client: CreateosClient = new CreateosClient(config, options);
const same: CreateosConfig = client.config;

const log: Log = (stream: "stdout" | "stderr", text: string) => {
  void [stream, text];
};
const slow: Log = async (_stream, text) => void text.length;

const params: ExecuteParams = {
  driverKey: "createos",
  companyId: "company",
  environmentId: "environment",
  config: { ...config },
  lease: { providerLeaseId: "sb_1", metadata: { provider: "createos" } },
  command: "echo",
  args: ["hello"],
  cwd: "/paperclip-workspace",
  env: { NAME: "value" },
  stdin: "",
  timeoutMs: 1000,
};
const leased: ReleaseParams = {
  driverKey: "createos",
  companyId: "company",
  environmentId: "environment",
  config: { ...config },
  providerLeaseId: "sb_1",
  leaseMetadata: { provider: "createos" },
};

function shown(result: ExecuteResult): string {
  const exitCode: number | null = result.exitCode;
  const timedOut: boolean = result.timedOut;
  return [exitCode, result.signal ?? "", timedOut, result.stdout, result.stderr, JSON.stringify(result.metadata)].join("\n");
}

function explained(error: unknown): string {
  if (error instanceof CreateosApiError) return String(error.status satisfies number);
  if (error instanceof CreateosCleanupError) return error.name satisfies string;
  if (error instanceof CreateosLoadError) return [error.platform, error.arch, error.libc ?? "", error.package ?? ""].join(" ") satisfies string;
  if (!(error instanceof CreateosError)) throw error;
  const details: ErrorDetails = error.details;
  const output: CapturedOutput | undefined = error.output;
  const attempts = details.attempts.map((attempt) => ("status" in attempt ? attempt.status : attempt.failure));
  return [error.message, details.operation, details.tries, ...attempts, output?.stdout, output?.stderr, output?.truncated].join(" ");
}

async function use(provider: CreateosProvider): Promise<void> {
  const controller = new AbortController();
  try {
    shown(await provider.execute(params, log, controller.signal));
    shown(await provider.execute(params));
    await provider.release(leased, true);
  } catch (error) {
    explained(error);
  } finally {
    await provider.shutdown();
  }
}

export async function main(): Promise<void> {
  shown(await execute(client, params, AbortSignal.timeout(1000), slow));
  shown(await execute(client, params));
  await release(leased, false);
  await use(createProvider(unpaced));
  await use(createProvider());
  await shutdown();
}

export async function withEmulator(settings: EmulatorOptions): Promise<string> {
  const emulator: Emulator = await startEmulator(settings);
  await emulator.close();
  return emulator.url + shellQuote(emulator.key);
}

// What the types must refuse.
// @ts-expect-error settings are an object
parseConfig("http://127.0.0.1:1");
// @ts-expect-error pacing is off or has numbers
createProvider({ pacing: true });
// @ts-expect-error events cannot be changed
createProvider({ onEvent: (event) => (event.leaseId = null) });
// @ts-expect-error a client has a configuration
new CreateosClient();
// @ts-expect-error whether to destroy must be said
void release(leased);

export { members, same };
