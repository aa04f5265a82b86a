"""Workers of the demonstration. Each is a plain script: it reads $BRIDGE_TASK and writes $BRIDGE_RESULT."""
