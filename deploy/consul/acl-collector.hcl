# The collector on a node: registers the service with the node's own agent and
# keeps its check alive. It may not read or write anything else.
service "gpuboard" {
  policy = "write"
}
