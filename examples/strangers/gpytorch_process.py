import numpy as np

import fieldbench


class Process(fieldbench.Method):
    """A Gaussian process with a Matern kernel (GPyTorch), and its standard deviation."""

    name = "gpytorch"
    libraries = ("torch",)
    requires = {"gpytorch": "gpytorch"}
    length: float = fieldbench.parameter(4.0, "length scale", unit="grid steps", gt=0, search=fieldbench.Log(1, 40))
    noise: float = fieldbench.parameter(1e-3, "variance of the noise over all", ge=1e-4, search=fieldbench.Log(1e-4, 1))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        import gpytorch as gp
        import torch

        mean, spread = observation.observed.mean(), observation.observed.std() or 1.0
        grid = torch.tensor(np.indices(observation.shape).reshape(observation.ndim, -1).T / self.length)
        seen = torch.tensor(observation.indices / self.length), torch.tensor((observation.observed - mean) / spread)
        model = gp.models.ExactGP(*seen, gp.likelihoods.GaussianLikelihood()).double().eval()
        model.likelihood.noise, kernel = self.noise, gp.kernels.MaternKernel(1.5).double()
        kernel.lengthscale = 1.0
        model.forward = lambda x: gp.distributions.MultivariateNormal(torch.zeros(len(x)).double(), kernel(x))
        made = model(grid)
        centre, around = (part.detach().numpy().reshape(observation.shape) for part in (made.mean, made.stddev))
        return fieldbench.Estimate(mean + spread * centre, spread * around)


fieldbench_register_methods = fieldbench.hookimpl(lambda: [Process])
