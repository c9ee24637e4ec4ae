// A frontend in TypeScript: asks a core where two pods that must start together would go.
//
// It brings its own nodes and queues along, so it works with any core and any platform.
import { randomUUID } from "node:crypto";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "./generated/scheduling_service.js";
import type { ScheduleRequest } from "./generated/pumice/v1/ScheduleRequest.js";
import type { ScheduleResponse__Output } from "./generated/pumice/v1/ScheduleResponse.js";

const GIB = 2 ** 30;
const address = process.env.PUMICE_ADDRESS ?? "127.0.0.1:7461";
const protos = process.env.PROTO ?? "../../../proto";

const loaded = loadSync("pumice/v1/scheduling_service.proto", {
  includeDirs: [protos],
  keepCase: true,
  longs: String,
  enums: String,
  oneofs: true,
  // Lists that are empty are there, too.
  defaults: true,
});
const { pumice } = grpc.loadPackageDefinition(loaded) as unknown as ProtoGrpcType;
const client = new pumice.v1.SchedulingService(address, grpc.credentials.createInsecure());

// Units are those of the wire: thousandths of a CPU, bytes, pods.
function request(pods: number): ScheduleRequest {
  const whole = { cpu: 4000, memory: 16 * GIB, pods: 110 };
  return {
    // A retry uses the same id and gets the same answer.
    request_id: randomUUID(),
    inline: {
      objects: {
        nodes: [{ name: "n1", allocatable: whole, capacity: whole }],
        queues: [{ name: "default", weight: 1, state: "QUEUE_STATE_OPEN" }],
        pod_groups: [{ namespace: "team", name: "job", min_member: pods }],
        pods: Array.from({ length: pods }, (_, number) => ({
          namespace: "team",
          name: `job-${number}`,
          group_name: "job",
          phase: "POD_PHASE_PENDING" as const,
          spec: { scheduler_name: "volcano", requests: { cpu: 1000, memory: GIB, pods: 1 } },
        })),
      },
    },
  };
}

function schedule(asked: ScheduleRequest): Promise<ScheduleResponse__Output> {
  const deadline = Date.now() + 10_000;
  return new Promise((resolve, reject) => {
    client.Schedule(asked, { deadline }, (error, answer) =>
      answer ? resolve(answer as ScheduleResponse__Output) : reject(error),
    );
  });
}

const answer = await schedule(request(2));
for (const { bind } of answer.decisions) {
  if (bind) console.log(`bind ${bind.namespace}/${bind.name} to ${bind.node}`);
}
for (const wait of answer.waits) console.log(`wait ${wait.job}: ${JSON.stringify(wait.reasons)}`);
client.close();
