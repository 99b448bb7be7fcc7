"""The worker process: supervisor > claimer, pools, committer, heartbeat, loops."""
