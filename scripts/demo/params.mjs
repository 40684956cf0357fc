// The parameters of a host's calls, as Paperclip gives them to a provider.

/**
 * @param {import("./endpoint.mjs").Endpoint} endpoint
 * @param {string} sandbox
 */
export function paramsFor({ config }, sandbox) {
  const scope = { companyId: "demo-company", environmentId: "demo-environment" };
  return {
    driverKey: "createos", ...scope, config: { ...config },
    lease: { providerLeaseId: sandbox, metadata: { provider: "createos", ...scope, apiUrl: config.apiUrl } },
  };
}
