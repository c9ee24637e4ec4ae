// A frontend in TypeScript: requests the scheduling decisions for a manifest from a core.
//
// The core parses the YAML, generates the pods of workloads, and returns a result for each job.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "./generated/scheduling_service.js";
import type { ScheduleRequest } from "./generated/pumice/v1/ScheduleRequest.js";
import type { ScheduleResponse__Output } from "./generated/pumice/v1/ScheduleResponse.js";

const address = process.env.PUMICE_ADDRESS ?? "127.0.0.1:7461";
const protos = process.env.PROTO ?? "../../../proto";
const cluster = process.env.PUMICE_CLUSTER;
const file = process.argv[2] ?? "manifest.yaml";

const loaded = loadSync("pumice/v1/scheduling_service.proto", {
  includeDirs: [protos],
  keepCase: true,
  longs: String,
  enums: String,
  oneofs: true,
  // Sets missing fields, such as empty lists, to their defaults.
  defaults: true,
});
const { pumice } = grpc.loadPackageDefinition(loaded) as unknown as ProtoGrpcType;
const client = new pumice.v1.SchedulingService(address, grpc.credentials.createInsecure());

// A request for the manifest alone, with its nodes and queues, or on a copy of a live cluster.
function request(): ScheduleRequest {
  const objects = { manifests: [{ source: file, text: readFileSync(file, "utf-8") }] };
  const source = cluster ? { cluster: { cluster, hypothetical: objects } } : { inline: { objects } };
  // A retry uses the same id and gets the same response.
  return { request_id: randomUUID(), own_only: true, ...source };
}

function schedule(asked: ScheduleRequest): Promise<ScheduleResponse__Output> {
  const deadline = Date.now() + 10_000;
  return new Promise((resolve, reject) => {
    client.Schedule(asked, { deadline }, (error, answer) =>
      answer ? resolve(answer as ScheduleResponse__Output) : reject(error),
    );
  });
}

const answer = await schedule(request());
for (const each of answer.problems) {
  console.log(`${each.source}: ${each.kind} ${each.key}: ${each.field}: ${each.problem}`);
}
for (const job of answer.jobs) {
  console.log(`${String(job.verdict).replace("JOB_VERDICT_", "")}: ${job.sentence}`);
  for (const pod of job.placed) console.log(`  ${pod.pod} on ${pod.node}`);
  for (const pod of job.evictions) console.log(`  evicts ${pod.namespace}/${pod.name} from ${pod.node}`);
  // Amounts of the protocol are in thousandths: one GPU is 1000.
  for (const lack of job.shortages.filter((each) => each.place !== "queue")) {
    console.log(`  ${lack.resource}: ${Number(lack.wanted) / 1000} wanted, ${Number(lack.free) / 1000} free`);
  }
}
client.close();
