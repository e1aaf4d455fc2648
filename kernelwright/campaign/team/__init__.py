"""Who proposes candidates: the offline team and the team that asks language models."""
