"""What is to be done about one gang, as pure functions: `GangState` in, `GangPlan` out (`plan_gang`)."""
