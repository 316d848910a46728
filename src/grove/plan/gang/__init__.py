"""What is to be done about one gang, as pure functions: `GangView` in, `GangPlan` out (`plan_gang`)."""
