"""Train RL4CO's attention model for the shortest of 8 tours: half a minute on a CPU.

The two lines that differ from a script of RL4CO are the import of `with_maxk` and its call.
"""

from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModel
from rl4co.utils.trainer import RL4COTrainer

from maxk_lab.adapters.rl4co import with_maxk

env = get_env("tsp", generator_params={"num_loc": 10}, seed=0)
model = with_maxk(AttentionModel)(
    env,
    num_samples=16,
    k=8,
    baseline="centred",
    policy_kwargs={"embed_dim": 32, "num_encoder_layers": 1, "num_heads": 4},
    batch_size=32,
    train_data_size=1600,
    val_data_size=64,
    test_data_size=64,
    optimizer_kwargs={"lr": 1e-3},
)
trainer = RL4COTrainer(
    max_epochs=2, accelerator="cpu", precision="32-true", logger=False, enable_checkpointing=False
)
trainer.test(model, verbose=False)
print(f"before: best of 8 {trainer.callback_metrics['test/max@8']:.3f}")
trainer.fit(model)
trainer.test(model, verbose=False)
print(f"after: best of 8 {trainer.callback_metrics['test/max@8']:.3f}")
