import pytest
import torch

from img2gray import img2gray

DEVICES = ["cpu"] if torch.version.cuda is None or not torch.cuda.is_available() else ["cuda"]
SIZES = [(1, 1, 3), (3, 5, 3), (7, 13, 3), (2, 31, 17, 3), (101, 333, 3), (0, 4, 3), (3,)]


def random_image(size, dtype, device):
    generator = torch.Generator().manual_seed(sum(size))
    if dtype == torch.uint8:
        image = torch.randint(0, 256, size, dtype=dtype, generator=generator)
    else:
        image = torch.rand(size, dtype=dtype, generator=generator)
    return image.to(device)


def reference(image):
    """The same in float64, on the CPU."""
    weights = torch.tensor([299, 587, 114], dtype=torch.float64)
    if image.dtype == torch.uint8:
        return torch.floor(((image.cpu().double() * weights).sum(-1) + 500) / 1000).to(torch.uint8)
    return (image.cpu().double() * weights).sum(-1) / 1000


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_equals_a_float64_reference(size, dtype, device):
    image = random_image(size, dtype, device)
    gray = img2gray(image)
    assert gray.dtype == dtype and gray.shape == image.shape[:-1]
    if dtype == torch.uint8:
        assert torch.equal(gray.cpu(), reference(image))
    else:
        torch.testing.assert_close(gray.cpu().double(), reference(image), rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_strided_and_unaligned_images(dtype, device):
    image = random_image((3, 65, 67), dtype, device).permute(1, 2, 0)[1:, 1:]
    torch.testing.assert_close(img2gray(image), img2gray(image.contiguous()), rtol=0, atol=0)
    flat = random_image((3 * 64 + 1,), dtype, device)[1:].view(64, 3)  # starts one element off
    torch.testing.assert_close(img2gray(flat), img2gray(flat.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_compiles_to_one_graph(device):
    image = random_image((9, 11, 3), torch.float32, device)
    compiled = torch.compile(lambda x: img2gray(x * 2) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(image), img2gray(image * 2) + 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_opcheck(dtype, device):
    import img2gray as package

    image = random_image((5, 7, 3), dtype, device)
    torch.library.opcheck(package._ops.ops.img2gray.default, (image,))


def test_refuses_other_images():
    with pytest.raises(RuntimeError, match="last dimension"):
        img2gray(torch.zeros(4, 4, dtype=torch.uint8, device=DEVICES[0]))
    with pytest.raises(RuntimeError, match="uint8 or float32"):
        img2gray(torch.zeros(4, 3, dtype=torch.float64, device=DEVICES[0]))
