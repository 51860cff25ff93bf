# Beside acl-generator.hcl, when several generators elect a leader: the lock and
# the session that holds it.
key "gpuboard/leader" {
  policy = "write"
}

session_prefix "" {
  policy = "write"
}
