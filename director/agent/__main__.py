"""`python -m director.agent -c FILE`: the agent alone, without the other commands' imports."""

from director.agent.command import agent_command

if __name__ == "__main__":
    agent_command(prog_name="director agent")
