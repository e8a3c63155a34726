import numpy as np

import fieldbench


class Siren(fieldbench.Method):
    """A network of sines from coordinates to values (Sitzmann et al. 2020), in torch."""

    name = "torch-siren"
    libraries = ("torch",)
    steps: int = fieldbench.parameter(200, "steps of Adam", ge=1)
    frequency: float = fieldbench.parameter(6.0, "of the first sines", gt=0, search=fieldbench.Log(1, 60))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        import torch

        mean, spread = observation.observed.mean(), observation.observed.std() or 1.0
        grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, size) for size in observation.shape), indexing="ij"), -1)
        positions, target = torch.tensor(grid[observation.mask]), torch.tensor((observation.observed - mean) / spread)
        with fieldbench.seeded(seed):
            layers = [torch.nn.Linear(*sizes, dtype=float) for sizes in ((grid.shape[-1], 64), (64, 64), (64, 1))]
        network = lambda x: layers[2](torch.sin(layers[1](torch.sin(self.frequency * layers[0](x)))))[..., 0]  # noqa: E731
        adam = torch.optim.Adam([weights for layer in layers for weights in layer.parameters()], 3e-3)
        for _ in range(self.steps):
            adam.zero_grad()
            torch.mean((network(positions) - target) ** 2).backward()
            adam.step()
        return mean + spread * network(torch.tensor(grid)).detach().numpy()


fieldbench_register_methods = fieldbench.hookimpl(lambda: [Siren])
