# The generator on the web host: sees the service, its nodes and their checks.
service_prefix "gpuboard" {
  policy = "read"
}

node_prefix "" {
  policy = "read"
}
