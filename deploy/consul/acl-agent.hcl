# The Consul agent on a node: puts its node and the services of the node into the catalog.
node_prefix "" {
  policy = "write"
}

service_prefix "" {
  policy = "read"
}
