// Runs commands on a leased sandbox, with a deadline and with their output as it comes.

import type { CreateosProvider, ExecuteParams, Lease, ScopeParams } from "createos-native";

export interface Outcome {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

export async function script(provider: CreateosProvider, scope: ScopeParams, lease: Lease, source: string, deadlineMs: number): Promise<Outcome> {
  const params: ExecuteParams = { ...scope, lease, command: "bash", args: ["-c", source] };
  const chunks: string[] = [];
  const log = (stream: "stdout" | "stderr", text: string): void => {
    if (stream === "stdout") chunks.push(text);
  };
  const { exitCode, timedOut } = await provider.execute(params, log, AbortSignal.timeout(deadlineMs));
  return { ok: exitCode === 0 && !timedOut, lines: chunks.join("").split("\n").filter((line) => line !== "") };
}
