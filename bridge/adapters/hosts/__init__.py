"""The coding agents that people start by themselves and that report through hooks: what their events say."""
