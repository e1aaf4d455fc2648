"""Structure that users' data has and random data lacks: ramps, masks, defaults, related inputs."""
