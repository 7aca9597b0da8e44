"""How the gradients of several tasks become one."""
